// SPDX-License-Identifier: Apache-2.0
#include <gloo/allreduce.h>

#include <cstring>

#include "backend/gloo/collectives.h"
#include "lockstep/collective/reduce.h"

namespace lockstep::detail {
namespace {

// One input times a factor.
void scale(const Buffer& data, double factor) {
  const void* const input = data.data;
  void* const output = data.data;
  lockstep::reduce({ReduceOp::kPremulSum, data.dtype, &factor}, &input, 1,
                   &output, 1, data.count);
}

}  // namespace

// Gloo combines two partial results at a time. Half types would be rounded each
// time, an average of integers would overflow on its way.
bool can_reduce_natively(const CollectiveOp& op) {
  const DType dtype = op.in.dtype;
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) return false;
  return op.reduce.kind() != ReduceOp::kAverage || is_floating(dtype);
}

void all_reduce_natively(const GlooStep& step, GlooAlgorithm algorithm) {
  const CollectiveOp& op = step.op;
  step.exchange.talk(op, 0, step.patience, step.nothing_to_send());
  if (op.in.data != op.out.data) {
    std::memcpy(op.out.data, op.in.data, op.in.bytes());
  }
  const ReduceOp::Kind kind = op.reduce.kind();
  if (kind == ReduceOp::kPremulSum) scale(op.out, op.reduce.factor());
  const bool is_sum =
      kind == ReduceOp::kPremulSum || kind == ReduceOp::kAverage;
  const Reduction reduction{is_sum ? ReduceOp::kSum : kind, op.in.dtype,
                            nullptr};
  Bulk& bulk = step.exchange.bulk();
  bulk.run(op.signature.sequence, step.patience, [&] {
    gloo::AllreduceOptions options(bulk.context());
    // Gloo needs the size of an element and the number of them: bytes in blocks
    // of one element.
    options.setAlgorithm(algorithm == GlooAlgorithm::kBcube
                             ? gloo::AllreduceOptions::Algorithm::BCUBE
                             : gloo::AllreduceOptions::Algorithm::RING);
    const auto set_output = [&](auto* typed) {
      options.setOutput(typed, op.out.count);
    };
    switch (size_of(op.out.dtype)) {
      case 1:
        set_output(static_cast<uint8_t*>(op.out.data));
        break;
      case 2:
        set_output(static_cast<uint16_t*>(op.out.data));
        break;
      case 4:
        set_output(static_cast<uint32_t*>(op.out.data));
        break;
      default:
        set_output(static_cast<uint64_t*>(op.out.data));
    }
    options.setReduceFunction(
        [reduction](void* out, const void* a, const void* b, size_t count) {
          const void* const inputs[] = {a, b};
          lockstep::reduce(reduction, inputs, 2, &out, 1, count);
        });
    options.setTag(static_cast<uint32_t>(op.signature.sequence));
    options.setTimeout(Bulk::milliseconds_of(step.patience.deadline()));
    gloo::allreduce(options);
    bulk.count_all();
  });
  if (kind == ReduceOp::kAverage) scale(op.out, 1.0 / step.size());
}

}  // namespace lockstep::detail

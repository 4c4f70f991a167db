// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/power_sgd.h"

#include <utility>
#include <vector>

#include "hook/power_sgd_cut.h"
#include "hook/power_sgd_state.h"
#include "hook/power_sgd_step.h"
#include "hook/queue.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::hooks {
namespace {

using detail::BucketCut;
using detail::PowerSgdState;
using detail::PowerSgdStep;

using CutBucket = BucketCut (*)(const GradBucket&, const PowerSgdOptions&);

ReduceOp average_for(const HookContext& context) {
  const int divisor = context.divisor();
  return divisor == context.group()->size()
             ? ReduceOp(ReduceOp::kAverage)
             : ReduceOp::premul_sum(1.0 / divisor);
}

// Queues everything that happens to a bucket, in the order in which it does.
Future<at::Tensor> compress(const GradBucket& bucket,
                            const HookContext& context, const BucketCut& cut,
                            const at::Tensor& residual, PowerSgdState& state) {
  ProcessGroup& group = *context.group();
  const ReduceOp average = average_for(context);
  const auto step = std::make_shared<PowerSgdStep>(
      bucket, cut, residual, state, 1.0 * context.divisor() / group.size());
  if (!cut.rest.empty()) {
    std::vector<at::Tensor> rest;
    for (const auto& [offset, length] : cut.rest) {
      rest.push_back(bucket.buffer().narrow(0, offset, length));
    }
    all_reduce_coalesced(group, rest, average);
  }
  detail::post_step(group, [step] { step->project(); });
  lockstep::all_reduce(group, step->p(), ReduceOp::kSum);
  detail::post_step(group, [step] { step->project_back(); });
  lockstep::all_reduce(group, step->q(), average);
  const auto last = detail::post_step(group, [step] { step->expand(); });
  return detail::result_after(last, bucket.buffer());
}

Future<at::Tensor> reduce(const GradBucket& bucket, const HookContext& context,
                          CutBucket cut_bucket, PowerSgdState& state) {
  const bool is_dense = !bucket.is_skipped() && !bucket.buffer().is_sparse();
  if (!state.is_compressing() || !is_dense) {
    return all_reduce()(bucket, context);
  }
  const auto bytes = static_cast<int64_t>(bucket.buffer().nbytes());
  BucketCut cut;
  at::Tensor residual;
  if (detail::is_compressible(bucket)) {
    cut = cut_bucket(bucket, state.options());
    // Also where no matrix is: after a rebuild, parameters come from other
    // buckets.
    residual = state.residual_of(bucket);
  }
  if (cut.matrices.empty()) {
    state.count_bytes(bytes, bytes);
    return all_reduce()(bucket, context);
  }
  constexpr int64_t kElement = sizeof(float);
  state.count_bytes(bytes, kElement * elements_sent(cut, state.options()));
  return compress(bucket, context, cut, residual, state);
}

CommHook make_hook(std::shared_ptr<PowerSgdState> state, CutBucket cut_bucket,
                   const char* name) {
  const auto hook = [state = std::move(state), cut_bucket, name](
                        const GradBucket& bucket, const HookContext& context) {
    state->meet(context.group(), name);
    auto result = reduce(bucket, context, cut_bucket, *state);
    if (bucket.is_last()) state->end_iteration(context.group()->rank());
    return result;
  };
  return CommHook(hook).named(name);
}

}  // namespace

double PowerSgdStats::compression_rate() const {
  return bytes_sent == 0 ? 1
                         : static_cast<double>(bytes_uncompressed) /
                               static_cast<double>(bytes_sent);
}

PowerSgd::PowerSgd(PowerSgdOptions options)
    : state_(std::make_shared<PowerSgdState>(options)) {}

CommHook PowerSgd::hook() {
  return make_hook(state_, &detail::cut_by_parameter, "power_sgd");
}

CommHook PowerSgd::batched_hook() {
  return make_hook(state_, &detail::cut_as_square, "batched_power_sgd");
}

const PowerSgdOptions& PowerSgd::options() const { return state_->options(); }

PowerSgdStats PowerSgd::stats() const { return state_->stats(); }

void PowerSgd::save(std::ostream& out) const { state_->save(out); }

void PowerSgd::load(std::istream& in) { state_->load(in); }

CommHook power_sgd(PowerSgdOptions options) { return PowerSgd(options).hook(); }

CommHook batched_power_sgd(PowerSgdOptions options) {
  return PowerSgd(options).batched_hook();
}

}  // namespace lockstep::hooks

// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/hook/comm_hook.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::hooks {
namespace {

// Launches the reduction of the bucket's buffer, in place.
Future<at::Tensor> reduce_buffer(ProcessGroup& group, const GradBucket& bucket,
                                 ReduceOp op) {
  return lockstep::all_reduce(group, bucket.buffer(), op)
      ->future()
      .then([buffer = bucket.buffer()] { return buffer; });
}

}  // namespace

CommHook all_reduce() {
  const auto average = [](const GradBucket& bucket,
                          const HookContext& context) {
    ProcessGroup& group = *context.group();
    const int ranks = context.divisor();
    if (bucket.is_skipped()) {
      return make_future([buffer = bucket.buffer()] { return buffer; });
    }
    if (ranks == group.size()) {
      return reduce_buffer(group, bucket, ReduceOp::kAverage);
    }
    if (!bucket.buffer().is_sparse()) {
      return reduce_buffer(group, bucket, ReduceOp::premul_sum(1.0 / ranks));
    }
    return reduce_buffer(group, bucket, ReduceOp::kSum)
        .then([ranks](const at::Tensor& sum) {
          sum._values().div_(ranks);
          return sum;
        });
  };
  return CommHook(average).named("all_reduce");
}

std::function<Future<at::Tensor>(const GradBucket&)> all_reduce(
    std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError,
                 "the hook's group is null; a rank outside a group has no "
                 "gradients to average");
  const int size = group->size();
  const HookContext context(std::move(group), size, 0, nullptr);
  return [context, average = all_reduce()](const GradBucket& bucket) {
    return average(bucket, context);
  };
}

}  // namespace lockstep::hooks

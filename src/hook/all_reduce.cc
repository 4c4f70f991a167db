// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/hook/comm_hook.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep {
namespace detail {

Future<at::Tensor> reduce_buffer(ProcessGroup& group, const GradBucket& bucket,
                                 ReduceOp op) {
  return lockstep::all_reduce(group, bucket.buffer(), op)
      ->future()
      .then([buffer = bucket.buffer()] { return buffer; });
}

}  // namespace detail

namespace hooks {

CommHook all_reduce(std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError,
                 "the hook's group is null; a rank outside a group has no "
                 "gradients to average");
  return [group = std::move(group)](const GradBucket& bucket) {
    return detail::reduce_buffer(*group, bucket, ReduceOp::kAverage);
  };
}

}  // namespace hooks
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/hook/grad_bucket.h"

// What hooks that compress have in common.
namespace lockstep::detail {

// Whether there is anything to compress: a dense bucket of float32 that some
// rank has used. All ranks say the same. Other buckets are reduced as they are.
inline bool is_compressible(const GradBucket& bucket) {
  return !bucket.is_skipped() && !bucket.buffer().is_sparse() &&
         bucket.buffer().scalar_type() == at::kFloat;
}

// Queues a local step behind what was launched on `group` so far, and before
// what is launched next. If it throws the group fails: what comes behind it
// would send data that the step was to prepare.
inline std::shared_ptr<Work> post_step(ProcessGroup& group,
                                       std::function<void()> step) {
  StepOptions options;
  options.fatal = true;
  return group.post(std::move(step), options);
}

// The hook's result: `value`, once the last thing that was queued is done.
inline Future<at::Tensor> result_after(const std::shared_ptr<Work>& last,
                                       at::Tensor value) {
  return last->future().then([value = std::move(value)] { return value; });
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hook/queue.h"
#include "lockstep/base/future.h"
#include "lockstep/hook/grad_bucket.h"
#include "lockstep/hook/hook_context.h"

// What the hooks that round or leave out gradients have in common.
namespace lockstep::detail {

// Whether such a hook has work to do with the bucket. Rows of a sparse gradient
// are others in every step, so nothing can be kept for them.
inline bool is_lossy(const GradBucket& bucket, const HookContext& context) {
  return is_compressible(bucket) && !bucket.sparse_indices() &&
         bucket.buffer().numel() > 0 && context.group()->size() > 1;
}

// Launches one thing after the other. The result is `value`, once all of them
// are done. If one fails this is its error, and not that the group had failed
// when the next one was launched or its turn came.
using Launch = std::function<std::shared_ptr<Work>()>;
Future<at::Tensor> launch_all(const std::vector<Launch>& launches,
                              at::Tensor value);

// The elements of a bucket's buffer.
// Errors: UsageError when they do not lie one after the other.
float* floats_of(const GradBucket& bucket);

// Memory for messages that is kept from step to step: new memory would cost as
// much as filling it. A lane works on one bucket after the other, so all
// buckets have the same.
//
// Threads: hook time, one thread at a time.
class MessageWords {
 public:
  using Words = std::shared_ptr<std::vector<uint32_t>>;

  // At least `count` words. What earlier calls returned stays alive as long as
  // it is used.
  Words take(size_t count) {
    if (words_ == nullptr || words_->size() < count) {
      words_ = std::make_shared<std::vector<uint32_t>>(count);
    }
    return words_;
  }

 private:
  Words words_;
};

// `count` words as what a collective sends.
inline Buffer words_buffer(uint32_t* words, size_t count) {
  return {words, count, DType::kInt32};
}

}  // namespace lockstep::detail

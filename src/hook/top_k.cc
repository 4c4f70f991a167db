// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "hook/block_kernels.h"
#include "hook/bucket_memory.h"
#include "hook/largest_values.h"
#include "hook/lossy.h"
#include "hook/queue.h"
#include "lockstep/base/error.h"
#include "lockstep/collective/collective_op.h"

namespace lockstep::detail {
namespace {

// One bucket on its way. Its words are the messages of all ranks: `wanted`
// indices, ascending, and then the values.
class BucketOfLargest {
 public:
  BucketOfLargest(const GradBucket& bucket, const HookContext& context,
                  double ratio, at::Tensor left_out, MessageWords& memory)
      : index_(bucket.index()),
        rank_(context.group()->rank()),
        ranks_(context.group()->size()),
        factor_(1 / static_cast<float>(context.divisor())),
        buffer_(bucket.buffer()),
        values_(floats_of(bucket)),
        left_out_(std::move(left_out)),
        count_(static_cast<size_t>(buffer_.numel())),
        wanted_(std::min(count_, static_cast<size_t>(std::ceil(
                                     ratio * static_cast<double>(count_))))),
        words_(memory.take(2 * wanted_ * static_cast<size_t>(ranks_))) {}

  // ---- What is sent.

  Buffer own_message() const {
    return words_buffer(message_of_rank(rank_), 2 * wanted_);
  }
  Buffer messages() const {
    return words_buffer(words_->data(),
                        2 * wanted_ * static_cast<size_t>(ranks_));
  }
  CallOptions options() const {
    CallOptions options;
    options.keepalive = words_;
    options.agreement = agreement_of({count_, wanted_});
    return options;
  }

  // ---- The steps.

  void choose() {
    float* const kept =
        left_out_.defined() ? left_out_.data_ptr<float>() : nullptr;
    if (kept != nullptr) add_scaled(values_, 1, count_, kept);
    const float* const from = kept != nullptr ? kept : values_;
    uint32_t* const indices = message_of_rank(rank_);
    const bool is_rest_finite = find_largest(from, count_, wanted_, indices);
    for (size_t i = 0; i < wanted_; ++i) {
      std::memcpy(indices + wanted_ + i, from + indices[i], sizeof(float));
      if (kept != nullptr) kept[indices[i]] = 0;
    }
    // The next step shall not suffer from what this one has told already.
    if (kept != nullptr && !is_rest_finite) {
      std::replace_if(
          kept, kept + count_, [](float x) { return !std::isfinite(x); }, 0.F);
    }
  }

  void add_up() {
    std::fill(values_, values_ + count_, 0.F);
    for (int rank = 0; rank < ranks_; ++rank) {
      const uint32_t* const indices = message_of_rank(rank);
      for (size_t i = 0; i < wanted_; ++i) {
        LOCKSTEP_CHECK(indices[i] < count_, MismatchError,
                       "rank {} sent element {} of bucket {}, which has {} "
                       "elements; do all ranks have the same model?",
                       rank, indices[i], index_, count_);
        float value;
        std::memcpy(&value, indices + wanted_ + i, sizeof(value));
        values_[indices[i]] += value * factor_;
      }
    }
  }

 private:
  uint32_t* message_of_rank(int rank) const {
    return words_->data() + 2 * wanted_ * static_cast<size_t>(rank);
  }

  const size_t index_;
  const int rank_;
  const int ranks_;
  const float factor_;
  const at::Tensor buffer_;  // keeps the values
  float* const values_;
  const at::Tensor left_out_;
  const size_t count_;
  const size_t wanted_;
  const MessageWords::Words words_;
};

class TopK {
 public:
  explicit TopK(const hooks::TopKOptions& options) : options_(options) {}

  Future<at::Tensor> run(const GradBucket& bucket, const HookContext& context) {
    // Indices have 32 bits.
    const bool is_short = bucket.buffer().numel() <=
                          int64_t{std::numeric_limits<uint32_t>::max()};
    if (!is_lossy(bucket, context) || !is_short) {
      return hooks::all_reduce()(bucket, context);
    }
    at::Tensor left_out;
    if (options_.error_feedback) left_out = left_out_.of(bucket);
    const auto on_its_way = std::make_shared<BucketOfLargest>(
        bucket, context, options_.ratio, std::move(left_out), words_);

    ProcessGroup& group = *context.group();
    return launch_all(
        {[&] {
           return post_step(group, [on_its_way] { on_its_way->choose(); });
         },
         [&] {
           return group.all_gather(on_its_way->own_message(),
                                   on_its_way->messages(), {},
                                   on_its_way->options());
         },
         [&] {
           return post_step(group, [on_its_way] { on_its_way->add_up(); });
         }},
        bucket.buffer());
  }

 private:
  const hooks::TopKOptions options_;
  BucketMemory left_out_;
  MessageWords words_;
};

}  // namespace
}  // namespace lockstep::detail

namespace lockstep::hooks {

CommHook top_k(const TopKOptions& options) {
  LOCKSTEP_CHECK(options.ratio > 0 && options.ratio <= 1, UsageError,
                 "ratio is {}; expected a number above 0 and at most 1",
                 options.ratio);
  const auto top_k = std::make_shared<detail::TopK>(options);
  const auto call = [top_k](const GradBucket& bucket,
                            const HookContext& context) {
    return top_k->run(bucket, context);
  };
  return CommHook(call).named("top_k");
}

}  // namespace lockstep::hooks

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep {

// A GradBucket is what a communication hook gets: gradients that are ready and
// travel together, as one tensor.
//
//   auto average = [](GradBucket bucket, const HookContext& context) {
//     at::Tensor all = bucket.buffer();          // flat, or sparse
//     auto work = all_reduce(*context.group(), all, ReduceOp::kAverage);
//     return work->future().then([all] { return all; });
//   };
//
// Bucket 0 is reduced first; buckets come in the same order on all ranks.
//
// Ownership: a view of the Reducer's memory, good until the Future that the
//            hook returns has completed; copies are cheap.
class GradBucket {
 public:
  // A parameter of the bucket.
  struct Member {
    size_t index;  // among all parameters of the Reducer
    // Where its gradient begins in the flat tensor, and how long it is, in
    // elements. For a sparse bucket: 0, and all elements of the parameter.
    int64_t offset;
    int64_t length;
  };

  // What a bucket is made of, shared by all its views; made by the Reducer.
  struct Contents {
    std::vector<Member> members;
    std::vector<at::Tensor> gradients;
    std::vector<at::Tensor> parameters;
  };

  GradBucket(size_t index, size_t count, at::Tensor buffer,
             std::shared_ptr<const Contents> contents,
             std::optional<at::Tensor> sparse_indices = {})
      : index_(index),
        count_(count),
        buffer_(std::move(buffer)),
        contents_(std::move(contents)),
        sparse_indices_(std::move(sparse_indices)) {}

  size_t index() const { return index_; }
  // How many buckets there are.
  size_t count() const { return count_; }
  bool is_last() const { return index_ + 1 == count_; }

  // This rank's gradients, not divided by anything: a flat tensor, or for a
  // sparse parameter its gradient.
  const at::Tensor& buffer() const { return buffer_; }
  // For hooks that wrap another: what the inner one shall see.
  void set_buffer(at::Tensor buffer) { buffer_ = std::move(buffer); }

  // ---- By parameter, in the order of the bucket.

  const std::vector<Member>& members() const { return contents_->members; }
  const std::vector<at::Tensor>& parameters() const {
    return contents_->parameters;
  }
  // Views into the Reducer's flat tensor with the parameter's shape; they do
  // not follow set_buffer(). Empty for a sparse bucket.
  const std::vector<at::Tensor>& gradients() const {
    return contents_->gradients;
  }
  // The same views into a result that lies elsewhere: as many elements as the
  // flat tensor, in one piece. Of a sparse bucket, the result itself.
  // Errors: UsageError when it does not fit.
  std::vector<at::Tensor> gradients_of(const at::Tensor& result) const;

  // Whether any rank has used the parameter in this backward. True where ranks
  // did not ask each other: they do so with skip_unused.
  bool is_used(size_t position) const {
    return used_.empty() || used_[position];
  }
  // No rank has used any parameter of this bucket. It is shown to the hook all
  // the same, on every rank, so that a hook which counts buckets sees all of
  // them. Return the buffer as it is: nothing need be sent, and what comes back
  // is not looked at.
  bool is_skipped() const;

  // The rows that `buffer` stands for, where sparse metadata were given: then
  // the buffer is dense, a row for each.
  const std::optional<at::Tensor>& sparse_indices() const {
    return sparse_indices_;
  }

  // For Reducers: by position, what is_used() says.
  void set_used(std::vector<bool> used) { used_ = std::move(used); }

 private:
  size_t index_;
  size_t count_;
  at::Tensor buffer_;
  std::shared_ptr<const Contents> contents_;
  std::optional<at::Tensor> sparse_indices_;
  std::vector<bool> used_;  // empty: not known
};

namespace detail {

// The part of `flat` from `offset` on, shaped and laid out like `parameter`.
// Not a view to autograd: zero_grad() refuses to detach views.
at::Tensor slice_like(const at::Tensor& flat, int64_t offset,
                      const at::Tensor& parameter);

}  // namespace detail

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep {

// A GradBucket is what a communication hook gets: gradients that are ready and
// travel together, as one tensor.
//
//   auto average = [&reducer](GradBucket bucket) {
//     at::Tensor all = bucket.buffer();          // flat, or sparse
//     auto work = all_reduce(reducer.group(), all, ReduceOp::kAverage);
//     return work->future().then([all] { return all; });
//   };
//
// Bucket 0 is reduced first; buckets come in the same order on all ranks.
//
// Ownership: a view of the Reducer's memory, good until the Future that the
//            hook returns has completed; copies are cheap.
class GradBucket {
 public:
  // What a bucket is made of, shared by all its views; made by the Reducer.
  struct Contents {
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

  // Views into the Reducer's flat tensor, by parameter, with the parameter's
  // shape; they do not follow set_buffer(). Empty for a sparse bucket.
  const std::vector<at::Tensor>& gradients() const {
    return contents_->gradients;
  }
  const std::vector<at::Tensor>& parameters() const {
    return contents_->parameters;
  }

  // The rows that `buffer` stands for, where sparse metadata were given: then
  // the buffer is dense, a row for each.
  const std::optional<at::Tensor>& sparse_indices() const {
    return sparse_indices_;
  }

 private:
  size_t index_;
  size_t count_;
  at::Tensor buffer_;
  std::shared_ptr<const Contents> contents_;
  std::optional<at::Tensor> sparse_indices_;
};

}  // namespace lockstep

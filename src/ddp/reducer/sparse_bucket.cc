// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/sparse_bucket.h"

#include <algorithm>
#include <functional>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "ddp/reducer/messages.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {

SparseBucket::SparseBucket(Member member, const GradAccess& access,
                           at::Tensor rows)
    : Bucket({std::move(member)}, access), rows_(std::move(rows)) {
  auto contents = std::make_shared<GradBucket::Contents>();
  contents->members.push_back(
      {this->member().index, 0, this->member().parameter.numel()});
  contents->parameters.push_back(this->member().parameter);
  contents_ = std::move(contents);
}

void check_rows(const at::Tensor& rows, const at::Tensor& parameter,
                const std::string& name) {
  LOCKSTEP_CHECK(
      rows.defined() && rows.dim() == 1 && rows.scalar_type() == at::kLong &&
          rows.is_contiguous(),
      UsageError,
      "the rows given for parameter '{}' are not a list of 64-bit integers",
      name);
  const auto* begin = static_cast<const int64_t*>(rows.data_ptr());
  const int64_t* end = begin + rows.numel();
  LOCKSTEP_CHECK(
      std::adjacent_find(begin, end, std::greater_equal<>()) == end, UsageError,
      "the rows given for parameter '{}' are not in ascending order", name);
  LOCKSTEP_CHECK(
      begin == end || (*begin >= 0 && end[-1] < parameter.size(0)), UsageError,
      "the rows given for parameter '{}' go from {} to {}, and it has {}", name,
      *begin, end[-1], parameter.size(0));
}

size_t SparseBucket::bytes() const {
  if (!buffer_.defined()) return 0;
  const auto& values = buffer_.is_sparse() ? buffer_._values() : buffer_;
  return static_cast<size_t>(values.nbytes());
}

GradBucket SparseBucket::make_view(size_t index, size_t count) const {
  const at::Tensor buffer = buffer_.defined() ? buffer_ : no_entries();
  if (!rows_.defined()) return {index, count, buffer, contents_};
  return {index, count, buffer, contents_, rows_};
}

void SparseBucket::clear() {
  buffer_ = rows_.defined() ? block_of(no_entries()) : no_entries();
}

at::Tensor SparseBucket::no_entries() const {
  return at::empty(member().parameter.sizes(),
                   member().parameter.options().layout(at::kSparse));
}

// One row for each of rows_, zeros where the gradient has none.
at::Tensor SparseBucket::block_of(const at::Tensor& gradient) const {
  std::vector<int64_t> sizes = member().parameter.sizes().vec();
  sizes[0] = rows_.numel();
  const at::Tensor block =
      at::zeros(sizes, gradient.options().layout(at::kStrided));
  if (gradient._nnz() == 0) return block;
  const at::Tensor one = gradient.coalesce();
  LOCKSTEP_CHECK(one.sparse_dim() == 1, UsageError,
                 "the gradient of parameter '{}' has {} sparse dimensions; "
                 "rows can be given for one only",
                 member().name, one.sparse_dim());
  const at::Tensor indices = one._indices().contiguous();
  const auto* wanted = static_cast<const int64_t*>(indices.data_ptr());
  const auto* begin = static_cast<const int64_t*>(rows_.data_ptr());
  const int64_t* end = begin + rows_.numel();
  const at::Tensor places = at::empty({one._nnz()}, at::kLong);
  auto* place = static_cast<int64_t*>(places.data_ptr());
  for (int64_t i = 0; i < one._nnz(); ++i) {
    const int64_t* found = std::lower_bound(begin, end, wanted[i]);
    LOCKSTEP_CHECK(found != end && *found == wanted[i], UsageError,
                   "the gradient of parameter '{}' has a row {} that is not "
                   "among the {} rows given as its sparse metadata",
                   member().name, wanted[i], rows_.numel());
    place[i] = found - begin;
  }
  block.index_copy_(0, places, one._values());
  return block;
}

void SparseBucket::take(size_t /*position*/, bool is_unused) {
  is_unused_ = is_unused;
  access().with_grad(member().parameter, [&](at::Tensor& grad) {
    LOCKSTEP_CHECK(!grad.defined() || grad.is_sparse(), UsageError,
                   "parameter {} ('{}') got a dense gradient, and "
                   "ReducerOptions::expect_sparse says that it is sparse",
                   member().index, member().name);
    if (grad.defined() && grad.requires_grad()) warn_of_create_graph();
    if (rows_.defined()) {
      buffer_ = block_of(grad.defined() ? grad.detach() : no_entries());
    } else if (!grad.defined()) {
      buffer_ = no_entries();
    } else {
      // A gradient that no rank used must stay unchanged, so the hook gets a
      // copy.
      buffer_ = is_unused ? grad.detach().clone() : grad.detach();
    }
  });
}

void SparseBucket::finish(const at::Tensor& result, const IsUsed& is_used) {
  LOCKSTEP_CHECK(result.defined() && result.sizes() == buffer_.sizes() &&
                     result.scalar_type() == buffer_.scalar_type(),
                 UsageError,
                 "the hook's result for the sparse parameter '{}' differs in "
                 "shape or type from what it got",
                 member().name);
  if (!is_unused_ || is_used(member().index)) {
    access().with_grad(member().parameter, [&](at::Tensor& grad) {
      grad = rows_.defined() && !result.is_sparse()
                 ? at::_sparse_coo_tensor_unsafe(
                       rows_.unsqueeze(0), result, member().parameter.sizes(),
                       result.options().layout(at::kSparse))
                       ._coalesced_(true)
                 : result;
    });
  }
}

void SparseBucket::release() {
  buffer_.reset();
  rows_.reset();
  Bucket::release();
}

}  // namespace lockstep::detail

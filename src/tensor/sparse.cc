// SPDX-License-Identifier: Apache-2.0
#include "tensor/sparse.h"

#include <algorithm>
#include <array>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/dtype.h"
#include "tensor/flat_tensor.h"

namespace lockstep::detail {
namespace {

constexpr int kMostDims = 16;

// What a rank says about its tensor before any of its data moves.
struct Description {
  int64_t entries = 0;
  int64_t sparse_dims = 0;
  int64_t dims = 0;
  int64_t type = 0;  // at::ScalarType
  std::array<int64_t, kMostDims> sizes{};

  static constexpr size_t kWords = 4 + kMostDims;
  int64_t* words() { return &entries; }

  // Without entries it does not matter which dimensions are sparse.
  bool agrees_with(const Description& other) const {
    const bool adapts = entries == 0 || other.entries == 0;
    return (adapts || sparse_dims == other.sparse_dims) && dims == other.dims &&
           type == other.type && sizes == other.sizes;
  }
  std::string text() const {
    return fmt::format("{} [{}] with {} sparse dimensions",
                       c10::toString(static_cast<at::ScalarType>(type)),
                       fmt::join(sizes.begin(), sizes.begin() + dims, ", "),
                       sparse_dims);
  }
};
static_assert(sizeof(Description) == Description::kWords * sizeof(int64_t));

Description describe(const at::Tensor& tensor) {
  Description mine;
  mine.entries = tensor._nnz();
  mine.sparse_dims = tensor.sparse_dim();
  mine.dims = tensor.dim();
  mine.type = static_cast<int64_t>(tensor.scalar_type());
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    mine.sizes[static_cast<size_t>(i)] = tensor.size(i);
  }
  return mine;
}

// What all ranks have, with the sparse dimensions of those that have entries.
std::vector<Description> exchange(LaneCalls& lane, Description mine,
                                  int ranks) {
  std::vector<Description> all(static_cast<size_t>(ranks));
  lane.all_gather(buffer_of(mine.words(), Description::kWords),
                  buffer_of(all[0].words(), Description::kWords * all.size()),
                  {});
  const auto has_entries = [](const Description& one) {
    return one.entries > 0;
  };
  const auto first = std::find_if(all.begin(), all.end(), has_entries);
  const Description model = first == all.end() ? all[0] : *first;
  for (int rank = 0; rank < ranks; ++rank) {
    Description& theirs = all[static_cast<size_t>(rank)];
    LOCKSTEP_CHECK(theirs.agrees_with(model), MismatchError,
                   "all_reduce of sparse tensors that differ: rank {} has {}, "
                   "rank {} has {}",
                   first == all.end() ? 0 : first - all.begin(), model.text(),
                   rank, theirs.text());
    theirs.sparse_dims = model.sparse_dims;
  }
  return all;
}

// All ranks' blocks of `per_entry` elements for each of their entries, one
// after the other.
at::Tensor gather_blocks(LaneCalls& lane, const at::Tensor& mine,
                         const std::vector<Description>& all,
                         int64_t per_entry) {
  std::vector<size_t> counts;
  int64_t total = 0;
  for (const Description& one : all) {
    counts.push_back(static_cast<size_t>(one.entries * per_entry));
    total += one.entries * per_entry;
  }
  const at::Tensor blocks = at::empty({total}, mine.options());
  const DType dtype = dtype_of(mine.scalar_type());
  lane.all_gather({mine.data_ptr(), static_cast<size_t>(mine.numel()), dtype},
                  {blocks.data_ptr(), static_cast<size_t>(total), dtype},
                  counts);
  return blocks;
}

// Indices lie by dimension in each rank's block, so the blocks are joined
// entry by entry; values lie by entry already.
at::Tensor join_indices(const at::Tensor& blocks,
                        const std::vector<Description>& all) {
  std::vector<at::Tensor> columns;
  int64_t begin = 0;
  for (const Description& one : all) {
    const int64_t length = one.sparse_dims * one.entries;
    columns.push_back(
        blocks.narrow(0, begin, length).view({one.sparse_dims, one.entries}));
    begin += length;
  }
  return at::cat(columns, 1);
}

}  // namespace

WorkHandle all_reduce_sparse(GroupRef group, const at::Tensor& tensor,
                             ReduceOp op, CallOptions options) {
  LOCKSTEP_CHECK(op.kind() == ReduceOp::kSum || op.kind() == ReduceOp::kAverage,
                 UsageError,
                 "sparse tensors can be summed and averaged; '{}' is not "
                 "defined for them",
                 to_text(op.kind()));
  LOCKSTEP_CHECK(tensor.dim() <= kMostDims, UsageError,
                 "a sparse tensor may have {} dimensions, this has {}",
                 kMostDims, tensor.dim());
  LOCKSTEP_CHECK(tensor.device().is_cpu(), UsageError,
                 "the tensor is on {}; collectives work on tensors on the CPU",
                 tensor.device().str());
  const at::NoGradGuard no_grad;
  // The average of integers is taken of their sum in 64 bits.
  const bool whole = at::isIntegralType(tensor.scalar_type(), false);
  const bool average = op.kind() == ReduceOp::kAverage;
  at::Tensor mine = tensor.detach();
  if (average && whole) mine = mine.to(at::kLong);
  mine = mine.coalesce();
  if (!mine.is_complex()) {
    check_defined(op.kind(), dtype_of(mine.scalar_type()));
  }
  const int ranks = group->size();
  const auto reduce = [target = tensor, mine, ranks, average,
                       whole](LaneCalls& lane) {
    const at::NoGradGuard guard;
    const auto all = exchange(lane, describe(mine), ranks);
    const int64_t sparse_dims = all[0].sparse_dims;
    const at::Tensor indices = join_indices(
        gather_blocks(lane, mine._indices().contiguous(), all, sparse_dims),
        all);
    const at::Tensor own = as_real(mine._values()).contiguous();
    int64_t per_entry = mine.is_complex() ? 2 : 1;
    std::vector<int64_t> shape = {indices.size(1)};
    for (int64_t i = sparse_dims; i < mine.dim(); ++i) {
      per_entry *= mine.size(i);
      shape.push_back(mine.size(i));
    }
    const at::Tensor blocks = gather_blocks(lane, own, all, per_entry);
    at::Tensor values = blocks;
    if (mine.is_complex()) {
      values = at::view_as_complex(blocks.view({blocks.numel() / 2, 2}));
    }
    at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices, values.view(shape),
                                                   mine.sizes(), mine.options())
                         .coalesce();
    if (average) {
      whole ? sum._values().div_(ranks, "trunc") : sum._values().div_(ranks);
    }
    const c10::InferenceMode as_made(target.is_inference());
    target.copy_(sum.to(target.scalar_type()));
  };
  options.keepalive = std::make_shared<std::pair<at::Tensor, Keepalive>>(
      tensor, std::move(options.keepalive));
  return group->compose(OpKind::kAllReduce, reduce, std::move(options));
}

}  // namespace lockstep::detail

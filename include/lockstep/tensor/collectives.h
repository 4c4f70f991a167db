// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"

// Collectives on tensors.
//
//   at::Tensor x = torch::rand({3, 4});
//   auto work = lockstep::all_reduce(world, x, ReduceOp::kAverage);
//   ...
//   work->wait();                          // now x is the average
//
// Tensors lie on the CPU. They may be contiguous or not, empty or of no
// dimension; what is not contiguous is copied on the way. Complex numbers are
// moved as pairs, and summed, averaged or scaled as pairs; other operations on
// them are a UsageError. all_reduce, broadcast and reduce compare shapes
// between ranks: [2, 3] here and [3, 2] there is a MismatchError on all; the
// others compare numbers of elements.
//
// Ownership: an operation keeps its tensors until it has completed. Do not
//            change them before that.
// Threads:   as for ProcessGroup. Autograd does not see what a collective does:
//            results have no history.
// Errors:    UsageError for a tensor on another device, a type or layout that
//            is not supported, an empty list, sizes or types that do not fit,
//            named with expected and given; else those of ProcessGroup.
namespace lockstep {

// A group, by reference or by shared pointer: all_reduce(world, x).
class GroupRef {
 public:
  GroupRef(ProcessGroup& group);
  GroupRef(const std::shared_ptr<ProcessGroup>& group);
  ProcessGroup* operator->() const { return group_; }
  ProcessGroup& operator*() const { return *group_; }

 private:
  ProcessGroup* group_;
};

using WorkHandle = std::shared_ptr<Work>;
using TensorList = std::vector<at::Tensor>;

// In place. A sparse (COO) tensor works too, for sum and average: ranks may
// have different numbers of entries, or none; the result is coalesced.
WorkHandle all_reduce(GroupRef group, const at::Tensor& tensor,
                      ReduceOp op = ReduceOp::kSum, CallOptions options = {});
WorkHandle broadcast(GroupRef group, const at::Tensor& tensor, int root = 0,
                     CallOptions options = {});
// The result is in the root's tensor; those of the others are untouched.
WorkHandle reduce(GroupRef group, const at::Tensor& tensor, int root,
                  ReduceOp op = ReduceOp::kSum, CallOptions options = {});

// ---- One tensor per rank; their sizes may differ from rank to rank, if all
// ranks say the same.

WorkHandle all_gather(GroupRef group, const TensorList& outputs,
                      const at::Tensor& input, CallOptions options = {});
// `outputs` is for the root, and empty elsewhere, unless the sizes differ:
// then every rank gives the list, for its sizes.
WorkHandle gather(GroupRef group, const TensorList& outputs,
                  const at::Tensor& input, int root, CallOptions options = {});
WorkHandle scatter(GroupRef group, const at::Tensor& output,
                   const TensorList& inputs, int root,
                   CallOptions options = {});
WorkHandle reduce_scatter(GroupRef group, const at::Tensor& output,
                          const TensorList& inputs,
                          ReduceOp op = ReduceOp::kSum,
                          CallOptions options = {});
WorkHandle all_to_all(GroupRef group, const TensorList& outputs,
                      const TensorList& inputs, CallOptions options = {});

// ---- The same with all parts in one tensor, by rank along its elements.

WorkHandle all_gather_into(GroupRef group, const at::Tensor& output,
                           const at::Tensor& input, CallOptions options = {});
WorkHandle reduce_scatter_from(GroupRef group, const at::Tensor& output,
                               const at::Tensor& input,
                               ReduceOp op = ReduceOp::kSum,
                               CallOptions options = {});
// Splits count slices along the first dimension; without them, all are equal.
WorkHandle all_to_all_single(GroupRef group, const at::Tensor& output,
                             const at::Tensor& input,
                             const std::vector<int64_t>& output_splits = {},
                             const std::vector<int64_t>& input_splits = {},
                             CallOptions options = {});

// ---- Several tensors of one type as one operation.

WorkHandle all_reduce_coalesced(GroupRef group, const TensorList& tensors,
                                ReduceOp op = ReduceOp::kSum,
                                CallOptions options = {});
// outputs[i][r] is what rank r gave as inputs[i].
WorkHandle all_gather_coalesced(GroupRef group,
                                const std::vector<TensorList>& outputs,
                                const TensorList& inputs,
                                CallOptions options = {});
// outputs[i] is this rank's part of the sum of inputs[i][r], r by rank.
WorkHandle reduce_scatter_coalesced(GroupRef group, const TensorList& outputs,
                                    const std::vector<TensorList>& inputs,
                                    ReduceOp op = ReduceOp::kSum,
                                    CallOptions options = {});

// Gives all ranks the root's values, of any types and shapes, packed into
// messages of up to `message_bytes`. The handle is that of the last.
WorkHandle broadcast_coalesced(GroupRef group, const TensorList& tensors,
                               int root = 0,
                               size_t message_bytes = size_t{25} << 20);

// ---- Point to point.

WorkHandle send(GroupRef group, const at::Tensor& tensor, int peer,
                int64_t tag = 0, CallOptions options = {});
WorkHandle recv(GroupRef group, const at::Tensor& tensor, int peer,
                int64_t tag = 0, CallOptions options = {});
WorkHandle recv_any(GroupRef group, const at::Tensor& tensor, int64_t tag = 0,
                    CallOptions options = {});

// ---- Memory.

// A tensor of zeros in the group's registered memory, where collectives on it
// need no copies. A collective that blocks.
at::Tensor registered_zeros(GroupRef group, at::IntArrayRef sizes,
                            at::ScalarType dtype = at::kFloat);

}  // namespace lockstep

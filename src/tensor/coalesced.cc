// SPDX-License-Identifier: Apache-2.0
// Several tensors as one operation.
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "tensor/flat_tensor.h"

namespace lockstep {
namespace {

using detail::agreement_of_shapes;
using detail::check_complex_op;
using detail::FlatTensor;
using detail::with_tensors;

// lists[i][r] in the order in which ranks' parts lie: all of rank 0, ...
TensorList by_rank(const char* name, const std::vector<TensorList>& lists,
                   const char* parts_name, const TensorList& parts, int ranks) {
  LOCKSTEP_CHECK(!parts.empty(), UsageError, "the list of {} is empty",
                 parts_name);
  LOCKSTEP_CHECK(lists.size() == parts.size(), UsageError,
                 "{} has {} lists for {} tensors of {}", name, lists.size(),
                 parts.size(), parts_name);
  TensorList all;
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < lists.size(); ++i) {
      LOCKSTEP_CHECK(lists[i].size() == static_cast<size_t>(ranks), UsageError,
                     "{}[{}] has {} tensors for {} ranks", name, i,
                     lists[i].size(), ranks);
      const at::Tensor& one = lists[i][static_cast<size_t>(rank)];
      LOCKSTEP_CHECK(one.defined() && parts[i].defined(), UsageError,
                     "{}[{}][{}] or {}[{}] is an undefined tensor", name, i,
                     rank, parts_name, i);
      LOCKSTEP_CHECK(one.numel() == parts[i].numel(), UsageError,
                     "{}[{}][{}] has {} elements and {}[{}] has {}", name, i,
                     rank, one.numel(), parts_name, i, parts[i].numel());
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace

WorkHandle all_reduce_coalesced(GroupRef group, const TensorList& tensors,
                                ReduceOp op, CallOptions options) {
  return detail::in_call(group, "all_reduce_coalesced", [&] {
    const FlatTensor flat("tensors", tensors, true);
    check_complex_op(tensors[0], op);
    options.agreement ^= agreement_of_shapes(tensors);
    return group->all_reduce(flat.buffer(), op,
                             with_tensors(std::move(options), {flat}, {flat}));
  });
}

WorkHandle all_gather_coalesced(GroupRef group,
                                const std::vector<TensorList>& outputs,
                                const TensorList& inputs, CallOptions options) {
  return detail::in_call(group, "all_gather_coalesced", [&] {
    const FlatTensor out(
        "outputs", by_rank("outputs", outputs, "inputs", inputs, group->size()),
        false);
    const FlatTensor in("inputs", inputs, true);
    options.agreement ^= agreement_of_shapes(inputs);
    return group->all_gather(
        in.buffer(), out.buffer(), {},
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle reduce_scatter_coalesced(GroupRef group, const TensorList& outputs,
                                    const std::vector<TensorList>& inputs,
                                    ReduceOp op, CallOptions options) {
  return detail::in_call(group, "reduce_scatter_coalesced", [&] {
    const FlatTensor in(
        "inputs", by_rank("inputs", inputs, "outputs", outputs, group->size()),
        true);
    const FlatTensor out("outputs", outputs, false);
    check_complex_op(outputs[0], op);
    options.agreement ^= agreement_of_shapes(outputs);
    return group->reduce_scatter(
        in.buffer(), out.buffer(), op, {},
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle broadcast_coalesced(GroupRef group, const TensorList& tensors,
                               int root, size_t message_bytes) {
  return detail::in_call(group, "broadcast_coalesced", [&] {
    LOCKSTEP_CHECK(!tensors.empty(), UsageError,
                   "the list of tensors is empty");
    WorkHandle last;
    TensorList message;
    size_t bytes = 0;
    const auto flush = [&] {
      if (message.empty()) return;
      const FlatTensor flat("tensors", message, group->rank() == root);
      // The root has the values already.
      std::vector<FlatTensor> results;
      if (group->rank() != root) results.push_back(flat);
      CallOptions options;
      options.agreement = agreement_of_shapes(message);
      last =
          group->broadcast(flat.buffer(), root,
                           with_tensors(std::move(options), {flat}, results));
      message.clear();
      bytes = 0;
    };
    // All before the first message: a bad one must not leave us out of step.
    for (const at::Tensor& tensor : tensors) {
      detail::check_dense("a tensor of the list", tensor);
    }
    for (const at::Tensor& tensor : tensors) {
      const bool fits =
          message.empty() ||
          (message[0].scalar_type() == tensor.scalar_type() &&
           bytes + static_cast<size_t>(tensor.nbytes()) <= message_bytes);
      if (!fits) flush();
      message.push_back(tensor);
      bytes += static_cast<size_t>(tensor.nbytes());
    }
    flush();
    return last;
  });
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/collectives.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/dtype.h"
#include "tensor/flat_tensor.h"
#include "tensor/grad_mode.h"
#include "tensor/sparse.h"

namespace lockstep {

using detail::check_complex_op;
using detail::FlatTensor;
using detail::with_shape;
using detail::with_tensors;

GroupRef::GroupRef(const std::shared_ptr<ProcessGroup>& group)
    : group_(group.get()) {
  LOCKSTEP_CHECK(group != nullptr, UsageError,
                 "the group is null; a rank outside a group cannot call it");
  detail::carry_grad_mode();
}
GroupRef::GroupRef(ProcessGroup& group) : group_(&group) {
  detail::carry_grad_mode();
}

WorkHandle all_reduce(GroupRef group, const at::Tensor& tensor, ReduceOp op,
                      CallOptions options) {
  return detail::in_call(group, "all_reduce", [&] {
    if (tensor.defined() && tensor.is_sparse()) {
      return detail::all_reduce_sparse(group, tensor, op, std::move(options));
    }
    const FlatTensor flat("tensor", tensor);
    check_complex_op(tensor, op);
    return group->all_reduce(
        flat.buffer(), op,
        with_shape(with_tensors(std::move(options), {flat}, {flat}), tensor));
  });
}

WorkHandle broadcast(GroupRef group, const at::Tensor& tensor, int root,
                     CallOptions options) {
  return detail::in_call(group, "broadcast", [&] {
    const FlatTensor flat("tensor", tensor);
    std::vector<FlatTensor> results;
    if (group->rank() != root) results.push_back(flat);
    return group->broadcast(
        flat.buffer(), root,
        with_shape(with_tensors(std::move(options), {flat}, results), tensor));
  });
}

WorkHandle reduce(GroupRef group, const at::Tensor& tensor, int root,
                  ReduceOp op, CallOptions options) {
  return detail::in_call(group, "reduce", [&] {
    const FlatTensor flat("tensor", tensor);
    check_complex_op(tensor, op);
    std::vector<FlatTensor> results;
    if (group->rank() == root) results.push_back(flat);
    return group->reduce(
        flat.buffer(), flat.buffer(), op, root,
        with_shape(with_tensors(std::move(options), {flat}, results), tensor));
  });
}

WorkHandle send(GroupRef group, const at::Tensor& tensor, int peer, int64_t tag,
                CallOptions options) {
  return detail::in_call(group, "send", [&] {
    const FlatTensor flat("tensor", tensor);
    return group->send(flat.buffer(), peer, tag,
                       with_tensors(std::move(options), {flat}, {}));
  });
}

WorkHandle recv(GroupRef group, const at::Tensor& tensor, int peer, int64_t tag,
                CallOptions options) {
  return detail::in_call(group, "recv", [&] {
    const FlatTensor flat("tensor", tensor);
    return group->recv(flat.buffer(), peer, tag,
                       with_tensors(std::move(options), {flat}, {flat}));
  });
}

WorkHandle recv_any(GroupRef group, const at::Tensor& tensor, int64_t tag,
                    CallOptions options) {
  return detail::in_call(group, "recv_any", [&] {
    const FlatTensor flat("tensor", tensor);
    return group->recv_any(flat.buffer(), tag,
                           with_tensors(std::move(options), {flat}, {flat}));
  });
}

}  // namespace lockstep

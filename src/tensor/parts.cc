// SPDX-License-Identifier: Apache-2.0
// Collectives in which every rank has a part: lists of tensors, or one tensor
// with all parts in it.
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "tensor/flat_tensor.h"

namespace lockstep {
namespace {

using detail::check_complex_op;
using detail::counts_of;
using detail::counts_unless_equal;
using detail::FlatTensor;
using detail::with_tensors;

void check_list(const char* name, const TensorList& list, int ranks) {
  LOCKSTEP_CHECK(!list.empty(), UsageError, "the list of {} is empty", name);
  LOCKSTEP_CHECK(list.size() == static_cast<size_t>(ranks), UsageError,
                 "{} has {} tensors for {} ranks", name, list.size(), ranks);
}

void check_same_type(const char* name, const at::Tensor& one,
                     const char* other_name, const at::Tensor& other) {
  LOCKSTEP_CHECK(one.scalar_type() == other.scalar_type(), UsageError,
                 "{} is {} and {} is {}", name,
                 c10::toString(one.scalar_type()), other_name,
                 c10::toString(other.scalar_type()));
}

// Elements per slice along the first dimension, times slices.
std::vector<size_t> counts_of_splits(const char* name, const at::Tensor& tensor,
                                     const std::vector<int64_t>& splits,
                                     int ranks) {
  LOCKSTEP_CHECK(tensor.dim() > 0, UsageError,
                 "{} has no dimension that could be split", name);
  LOCKSTEP_CHECK(splits.size() == static_cast<size_t>(ranks), UsageError,
                 "{} has {} splits for {} ranks", name, splits.size(), ranks);
  int64_t sum = 0;
  for (const int64_t split : splits) {
    LOCKSTEP_CHECK(split >= 0, UsageError, "{} has a split of {}", name, split);
    sum += split;
  }
  LOCKSTEP_CHECK(sum == tensor.size(0), UsageError,
                 "{} has {} slices along its first dimension, its splits add "
                 "up to {}",
                 name, tensor.size(0), sum);
  const int64_t slices = std::max<int64_t>(tensor.size(0), 1);
  const int64_t each = tensor.numel() / slices * (tensor.is_complex() ? 2 : 1);
  std::vector<size_t> counts;
  for (const int64_t split : splits) {
    counts.push_back(static_cast<size_t>(split * each));
  }
  return counts;
}

}  // namespace

WorkHandle all_gather(GroupRef group, const TensorList& outputs,
                      const at::Tensor& input, CallOptions options) {
  return detail::in_call(group, "all_gather", [&] {
    check_list("outputs", outputs, group->size());
    const FlatTensor in("input", input);
    check_same_type("outputs[0]", outputs[0], "input", input);
    const FlatTensor out("outputs", outputs, false);
    return group->all_gather(
        in.buffer(), out.buffer(), counts_unless_equal(outputs),
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle gather(GroupRef group, const TensorList& outputs,
                  const at::Tensor& input, int root, CallOptions options) {
  return detail::in_call(group, "gather", [&] {
    const FlatTensor in("input", input);
    if (group->rank() == root || !outputs.empty()) {
      check_list("outputs", outputs, group->size());
      check_same_type("outputs[0]", outputs[0], "input", input);
    }
    const auto counts = counts_unless_equal(outputs);
    if (group->rank() != root) {
      return group->gather(in.buffer(), {}, root, counts,
                           with_tensors(std::move(options), {in}, {}));
    }
    const FlatTensor out("outputs", outputs, false);
    return group->gather(in.buffer(), out.buffer(), root, counts,
                         with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle scatter(GroupRef group, const at::Tensor& output,
                   const TensorList& inputs, int root, CallOptions options) {
  return detail::in_call(group, "scatter", [&] {
    const FlatTensor out("output", output);
    if (group->rank() == root || !inputs.empty()) {
      check_list("inputs", inputs, group->size());
      check_same_type("inputs[0]", inputs[0], "output", output);
    }
    const auto counts = counts_unless_equal(inputs);
    if (group->rank() != root) {
      return group->scatter({}, out.buffer(), root, counts,
                            with_tensors(std::move(options), {out}, {out}));
    }
    const FlatTensor in("inputs", inputs, true);
    return group->scatter(in.buffer(), out.buffer(), root, counts,
                          with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle reduce_scatter(GroupRef group, const at::Tensor& output,
                          const TensorList& inputs, ReduceOp op,
                          CallOptions options) {
  return detail::in_call(group, "reduce_scatter", [&] {
    check_list("inputs", inputs, group->size());
    const FlatTensor out("output", output);
    check_same_type("inputs[0]", inputs[0], "output", output);
    check_complex_op(output, op);
    const FlatTensor in("inputs", inputs, true);
    return group->reduce_scatter(
        in.buffer(), out.buffer(), op, counts_unless_equal(inputs),
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle all_to_all(GroupRef group, const TensorList& outputs,
                      const TensorList& inputs, CallOptions options) {
  return detail::in_call(group, "all_to_all", [&] {
    check_list("outputs", outputs, group->size());
    check_list("inputs", inputs, group->size());
    check_same_type("outputs[0]", outputs[0], "inputs[0]", inputs[0]);
    const FlatTensor in("inputs", inputs, true);
    const FlatTensor out("outputs", outputs, false);
    return group->all_to_all(
        in.buffer(), out.buffer(), counts_of(inputs), counts_of(outputs),
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle all_gather_into(GroupRef group, const at::Tensor& output,
                           const at::Tensor& input, CallOptions options) {
  return detail::in_call(group, "all_gather_into", [&] {
    const FlatTensor in("input", input);
    const FlatTensor out("output", output);
    check_same_type("output", output, "input", input);
    return group->all_gather(
        in.buffer(), out.buffer(), {},
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle reduce_scatter_from(GroupRef group, const at::Tensor& output,
                               const at::Tensor& input, ReduceOp op,
                               CallOptions options) {
  return detail::in_call(group, "reduce_scatter_from", [&] {
    const FlatTensor in("input", input);
    const FlatTensor out("output", output);
    check_same_type("output", output, "input", input);
    check_complex_op(output, op);
    return group->reduce_scatter(
        in.buffer(), out.buffer(), op, {},
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

WorkHandle all_to_all_single(GroupRef group, const at::Tensor& output,
                             const at::Tensor& input,
                             const std::vector<int64_t>& output_splits,
                             const std::vector<int64_t>& input_splits,
                             CallOptions options) {
  return detail::in_call(group, "all_to_all_single", [&] {
    const FlatTensor in("input", input);
    const FlatTensor out("output", output);
    check_same_type("output", output, "input", input);
    LOCKSTEP_CHECK(output_splits.empty() == input_splits.empty(), UsageError,
                   "give both output_splits and input_splits, or none");
    std::vector<size_t> in_counts;
    std::vector<size_t> out_counts;
    if (!input_splits.empty()) {
      in_counts = counts_of_splits("input", input, input_splits, group->size());
      out_counts =
          counts_of_splits("output", output, output_splits, group->size());
    }
    return group->all_to_all(
        in.buffer(), out.buffer(), in_counts, out_counts,
        with_tensors(std::move(options), {in, out}, {out}));
  });
}

}  // namespace lockstep

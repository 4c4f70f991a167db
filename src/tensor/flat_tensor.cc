// SPDX-License-Identifier: Apache-2.0
#include "tensor/flat_tensor.h"

#include <algorithm>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Layout.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/dtype.h"
#include "tensor/compat.h"

namespace lockstep::detail {

void check_dense(const std::string& name, const at::Tensor& tensor) {
  LOCKSTEP_CHECK(tensor.defined(), UsageError, "{} is an undefined tensor",
                 name);
  LOCKSTEP_CHECK(tensor.layout() == c10::kStrided, UsageError,
                 "{} is sparse (layout {}); a dense tensor is needed here",
                 name, text_of(tensor.layout()));
  LOCKSTEP_CHECK(tensor.device().is_cpu(), UsageError,
                 "{} is on {}; collectives work on tensors on the CPU", name,
                 tensor.device().str());
  if (!tensor.is_complex()) {
    try {
      dtype_of(tensor.scalar_type());
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", name, error.message()));
    }
  }
}

// Conjugate and negative views hold other numbers than they show.
at::Tensor as_real(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  return plain.is_complex() ? at::view_as_real(plain) : plain;
}

FlatTensor::FlatTensor(const std::string& name, const at::Tensor& tensor) {
  check_dense(name, tensor);
  const at::NoGradGuard no_grad;
  data_ = as_real(tensor).contiguous();
  if (data_.data_ptr() != tensor.data_ptr()) {
    write_back_to_.push_back(tensor.detach());
  }
}

FlatTensor::FlatTensor(const std::string& name, const TensorList& tensors,
                       bool copy_in) {
  LOCKSTEP_CHECK(!tensors.empty(), UsageError, "the list of {} is empty", name);
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_dense(fmt::format("{}[{}]", name, i), tensors[i]);
    LOCKSTEP_CHECK(tensors[i].scalar_type() == tensors[0].scalar_type(),
                   UsageError,
                   "{}[{}] is {} and {}[0] is {}; a list has one type", name, i,
                   c10::toString(tensors[i].scalar_type()), name,
                   c10::toString(tensors[0].scalar_type()));
    total += tensors[i].numel();
  }
  const at::NoGradGuard no_grad;
  const at::Tensor all = at::empty({total}, tensors[0].options());
  if (copy_in) {
    int64_t at = 0;
    for (const at::Tensor& tensor : tensors) {
      all.narrow(0, at, tensor.numel()).copy_(tensor.detach().reshape(-1));
      at += tensor.numel();
    }
  }
  data_ = as_real(all);
  for (const at::Tensor& tensor : tensors) {
    write_back_to_.push_back(tensor.detach());
  }
}

Buffer FlatTensor::buffer() const {
  return {data_.data_ptr(), static_cast<size_t>(data_.numel()),
          dtype_of(data_.scalar_type())};
}

void FlatTensor::write_back() const {
  const at::NoGradGuard no_grad;
  const at::Tensor elements = data_.reshape(-1);
  int64_t at = 0;
  for (const at::Tensor& tensor : write_back_to_) {
    const int64_t count = tensor.numel() * (tensor.is_complex() ? 2 : 1);
    at::Tensor result = elements.narrow(0, at, count);
    if (tensor.is_complex()) {
      result = at::view_as_complex(result.view({tensor.numel(), 2}));
    }
    // A tensor made in inference mode may be changed in that mode only.
    const c10::InferenceMode as_made(tensor.is_inference());
    tensor.copy_(result.view(tensor.sizes()));
    at += count;
  }
}

void FlatTensor::check_writable() const {
  for (const at::Tensor& tensor : write_back_to_) {
    LOCKSTEP_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                   UsageError,
                   "a tensor that receives values has elements that share "
                   "memory, as after expand(); give it memory of its own");
  }
}

std::vector<size_t> counts_of(const TensorList& tensors) {
  std::vector<size_t> counts;
  for (const at::Tensor& tensor : tensors) {
    counts.push_back(static_cast<size_t>(tensor.numel()) *
                     (tensor.is_complex() ? 2 : 1));
  }
  return counts;
}

std::vector<size_t> counts_unless_equal(const TensorList& tensors) {
  std::vector<size_t> counts = counts_of(tensors);
  const bool equal =
      std::all_of(counts.begin(), counts.end(),
                  [&](size_t count) { return count == counts.front(); });
  if (equal) counts.clear();
  return counts;
}

CallOptions with_tensors(CallOptions options,
                         const std::vector<FlatTensor>& kept,
                         const std::vector<FlatTensor>& results) {
  options.keepalive =
      std::make_shared<std::pair<std::vector<FlatTensor>, Keepalive>>(
          kept, std::move(options.keepalive));
  std::vector<FlatTensor> copies;
  for (const FlatTensor& result : results) {
    result.check_writable();
    if (result.is_copy()) copies.push_back(result);
  }
  if (copies.empty()) return options;
  options.finish = [copies, next = std::move(options.finish)] {
    for (const FlatTensor& copy : copies) copy.write_back();
    if (next) next();
  };
  return options;
}

CallOptions with_shape(CallOptions options, const at::Tensor& tensor) {
  if (!options.shape.empty()) return options;
  options.shape = tensor.sizes().vec();
  if (tensor.is_complex()) options.shape.push_back(2);
  return options;
}

uint64_t agreement_of_shapes(const TensorList& tensors) {
  std::vector<size_t> numbers;
  for (const at::Tensor& tensor : tensors) {
    numbers.push_back(static_cast<size_t>(tensor.dim()));
    for (const int64_t size : tensor.sizes()) {
      numbers.push_back(static_cast<size_t>(size));
    }
  }
  return agreement_of(numbers);
}

void check_complex_op(const at::Tensor& tensor, ReduceOp op) {
  const bool linear = op.kind() == ReduceOp::kSum ||
                      op.kind() == ReduceOp::kAverage ||
                      op.kind() == ReduceOp::kPremulSum;
  LOCKSTEP_CHECK(!tensor.is_complex() || linear, UsageError,
                 "the operation '{}' is not defined for {}", to_text(op.kind()),
                 c10::toString(tensor.scalar_type()));
}

}  // namespace lockstep::detail

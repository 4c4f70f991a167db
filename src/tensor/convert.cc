// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/convert.h"

#include <ATen/core/grad_mode.h>

#include "lockstep/collective/convert.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {
namespace {

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf ||
         tensor.scalar_type() == at::kBFloat16;
}

// Element i of one memory belongs to element i of the other.
bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.is_non_overlapping_and_dense() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && !a.is_neg() && !b.is_neg();
}

Buffer buffer_of_halves(const at::Tensor& tensor) {
  return {tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
          dtype_of(tensor.scalar_type())};
}

}  // namespace

void convert_into(const at::Tensor& to, const at::Tensor& from, double factor) {
  const at::NoGradGuard no_grad;
  const bool is_alike = lie_alike(to, from);
  if (is_alike && is_half(to) && from.scalar_type() == at::kFloat) {
    narrow(static_cast<const float*>(from.data_ptr()), buffer_of_halves(to),
           static_cast<float>(factor));
  } else if (is_alike && is_half(from) && to.scalar_type() == at::kFloat &&
             factor == 1) {
    widen(buffer_of_halves(from), static_cast<float*>(to.data_ptr()));
  } else {
    to.copy_(factor == 1 ? from : from.mul(factor));
  }
}

}  // namespace lockstep

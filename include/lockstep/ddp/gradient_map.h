// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>

#include <ATen/core/Tensor.h>

namespace lockstep {

// Gradients kept beside the parameters instead of in their `.grad`.
//
// Threads: one at a time; the Reducer uses it while it reduces.
class GradientMap {
 public:
  // The gradient of `parameter`; undefined until it is assigned.
  at::Tensor& operator[](const at::Tensor& parameter) {
    return gradients_[parameter.unsafeGetTensorImpl()];
  }
  size_t size() const { return gradients_.size(); }

 private:
  std::unordered_map<const void*, at::Tensor> gradients_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lockstep/ddp/gradient_map.h"

namespace lockstep::detail {

// Where gradients are: in `.grad`, or in a map that the program has set. All
// reading and writing of gradients goes through it.
//
// Threads: guarded by the Reducer.
class GradAccess {
 public:
  // Calls f(at::Tensor& gradient), which may change or replace it.
  template <class F>
  void with_grad(const at::Tensor& parameter, F f) const {
    f(map_ ? (*map_)[parameter] : parameter.mutable_grad());
  }

  bool has_gradient(const at::Tensor& parameter) const {
    bool has = false;
    with_grad(parameter, [&](const at::Tensor& grad) { has = grad.defined(); });
    return has;
  }

  bool has_map() const { return map_ != nullptr; }
  // Null: gradients are in `.grad`.
  void use_map(std::shared_ptr<GradientMap> map) { map_ = std::move(map); }

 private:
  std::shared_ptr<GradientMap> map_;
};

}  // namespace lockstep::detail

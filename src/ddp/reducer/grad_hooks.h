// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::detail {

// Is told what happens in backward.
//
// Threads: called on autograd's threads.
// Errors:  what it throws comes out of backward().
class BackwardListener {
 public:
  virtual ~BackwardListener() = default;
  // The gradient of a parameter has been accumulated.
  virtual void on_gradient(size_t parameter) = 0;
  // Backward has come to outputs that were given to watch_outputs() with this
  // number.
  virtual void on_output(uint64_t graph) = 0;
};

// A hook on the gradient of each parameter, which tells the listener.
// Destroying it removes the hooks.
//
// Ownership: keeps the accumulators alive to which the hooks belong, because
//            autograd holds them only weakly. Hooks hold the listener weakly.
class GradHooks {
 public:
  using NodePtr = decltype(torch::autograd::impl::grad_accumulator(
      std::declval<const at::Tensor&>()));

  // Errors: UsageError when two parameters are the same tensor.
  GradHooks(const std::vector<at::Tensor>& parameters,
            const std::vector<std::string>& names,
            const std::weak_ptr<BackwardListener>& listener);
  ~GradHooks();
  GradHooks(const GradHooks&) = delete;
  GradHooks& operator=(const GradHooks&) = delete;

  const torch::autograd::Node* accumulator(size_t parameter) const {
    return hooks_[parameter].accumulator.get();
  }

  // Whether `parameter` still has the hook: set_data() with another type, as in
  // module->to(dtype), removes it silently.
  bool is_on(size_t index, const at::Tensor& parameter) const;

 private:
  struct Hook {
    NodePtr accumulator;
    uintptr_t key;
  };
  std::vector<Hook> hooks_;
};

// Watches the nodes that made `outputs`, even when these are changed in place
// afterwards: a backward that comes to them calls listener.on_output(graph).
// The result expires with the last of these nodes; when no output has a history
// it has expired already.
std::weak_ptr<const void> watch_outputs(
    const std::vector<at::Tensor>& outputs, uint64_t graph,
    const std::weak_ptr<BackwardListener>& listener);

}  // namespace lockstep::detail

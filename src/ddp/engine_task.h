// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <torch/csrc/autograd/function.h>

// The backward that this thread is running, as autograd's engine knows it. A
// backward that is called inside another is a task of its own.
namespace lockstep::detail {

class EngineTask {
 public:
  // Null outside of backward.
  static EngineTask current();

  explicit operator bool() const { return id_ != nullptr; }
  bool operator==(const EngineTask& other) const { return id_ == other.id_; }

  // It computes the gradients of some tensors only, as autograd::grad() does.
  bool is_partial() const;

  // It will pass `node`.
  bool passes(const torch::autograd::Node* node) const;

  // Runs `callback` at the end of the current task, before backward() returns.
  static void at_end(std::function<void()> callback);

 private:
  explicit EngineTask(const void* id) : id_(id) {}
  const void* id_;  // only while the task runs, for another may be there next
};

}  // namespace lockstep::detail

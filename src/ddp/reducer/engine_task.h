// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <torch/csrc/autograd/function.h>

namespace lockstep::detail {

// The backward that this thread is running, as autograd's engine knows it. A
// backward that is called inside another is a task of its own.
//
// Threads: only on the thread that runs the backward, while it runs.
class EngineTask {
 public:
  // Null outside of backward.
  static EngineTask current();

  explicit operator bool() const { return id_ != nullptr; }
  bool operator==(const EngineTask& other) const { return id_ == other.id_; }

  // The backward computes the gradients of some tensors only, as
  // autograd::grad() does, and backward() with a list of inputs.
  bool is_partial() const;

  // The backward was called inside of another.
  bool is_nested() const;

  // The backward will run `node`.
  bool runs(const torch::autograd::Node* node) const;

  // Runs `callback` at the end of the current task, before backward() returns.
  static void at_end(std::function<void()> callback);

 private:
  explicit EngineTask(const void* id) : id_(id) {}
  const void* id_;  // unique while the task runs; a later task may have it too
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/engine_task.h"
#include "ddp/reducer/grad_hooks.h"
#include "lockstep/base/thread.h"

namespace lockstep::detail {

// Lets a module compute with parameters of another type: while forward and
// backward run, the module's tensors have the data of copies of that type, and
// at all other times their own.
//
// The tensors themselves stay, and so do the nodes in which autograd
// accumulates their gradients: these were made for the parameters' own type, to
// which autograd converts every gradient that arrives.
//
// Threads: one forward or backward at a time.
class LowPrecision : public BackwardListener,
                     public std::enable_shared_from_this<LowPrecision> {
 public:
  LowPrecision(std::vector<at::Tensor> parameters, at::ScalarType type);
  ~LowPrecision() override { raise(); }

  at::ScalarType type() const { return type_; }

  // Before forward: copies the parameters, and lowers them.
  void begin_forward();
  // After it, or when it has thrown. Outputs of the type become the
  // parameters' own type, and backward through them lowers the parameters
  // again.
  void end_forward(const std::vector<at::Tensor*>& outputs);

  bool is_low();
  // Gives the parameters their own data.
  void raise();

  void on_gradient(size_t /*parameter*/) override {}
  void on_output(uint64_t graph) override;

 private:
  void lower();
  void end_task(const EngineTask& task);

  const std::vector<at::Tensor> parameters_;
  const at::ScalarType type_;
  const at::ScalarType own_type_;
  std::vector<at::Tensor> copies_;

  std::mutex mutex_;
  std::vector<at::Tensor> own_ LOCKSTEP_GUARDED_BY(mutex_);  // while lowered
  std::vector<EngineTask> tasks_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ddp/reducer/grad_hooks.h"
#include "ddp/wrapper/model_parts.h"
#include "lockstep/base/future.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/reducer.h"

namespace lockstep::detail {

// Averages the gradients of chosen parameters together, apart from the others,
// when the gradient of the trigger has come; in a backward without a gradient
// of the trigger, at its end.
//
// It is a second Reducer with a bucket for each type and a lane of its own. Its
// hook queues the reductions as soon as buckets are full, behind a local step
// that waits for the trigger: so the order is that of the buckets, whenever the
// trigger comes.
//
// Threads: autograd's hooks come on autograd's threads; mutex_ guards what they
//          change.
class DelayedGradients : public BackwardListener,
                         public std::enable_shared_from_this<DelayedGradients> {
 public:
  // A collective that blocks. `options` are those of the other parameters.
  static std::shared_ptr<DelayedGradients> make(
      const ModelParts& parts, const std::string& trigger,
      const std::shared_ptr<ProcessGroup>& group, ReducerOptions options);

  // The Reducer of the delayed parameters; each step is prepared with it too.
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }
  // Registers the hook: again after the Reducer was reset or got another group.
  void set_hook();

  // The gradient of the trigger has come.
  void on_gradient(size_t index) override;
  void on_output(uint64_t /*graph*/) override {}

 private:
  using Gate = std::unique_ptr<Promise<void>>;

  DelayedGradients() = default;
  Future<at::Tensor> reduce(const GradBucket& bucket,
                            const HookContext& context);
  Future<void> triggered();
  Gate take_gate(bool is_triggered);
  void end_backward();

  std::unique_ptr<Reducer> reducer_;
  std::optional<GradHooks> trigger_;

  std::mutex mutex_;
  // The trigger has come since the last reduction.
  bool is_triggered_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  Gate gate_ LOCKSTEP_GUARDED_BY(mutex_);  // null unless the lane waits for it
};

}  // namespace lockstep::detail

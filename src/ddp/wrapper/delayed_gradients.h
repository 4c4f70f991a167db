// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/reducer/grad_hooks.h"
#include "ddp/wrapper/model_parts.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/reducer.h"

namespace lockstep::detail {

// Averages the gradients of chosen parameters apart from the others, together,
// when that of the trigger has come: a second Reducer, with one bucket for each
// type and a lane of its own, whose hook waits for the trigger. A backward that
// never comes to the trigger sends them at its end.
//
// Threads: hooks come on autograd's threads; mutex_ guards the rest.
class DelayedGradients : public BackwardListener,
                         public std::enable_shared_from_this<DelayedGradients> {
 public:
  // A collective that blocks. `options` are those of the other parameters.
  static std::shared_ptr<DelayedGradients> make(
      const ModelParts& parts, const std::string& trigger,
      const std::shared_ptr<ProcessGroup>& group, ReducerOptions options);

  // Of the delayed parameters: each step is prepared with this one too.
  Reducer& reducer() { return *reducer_; }
  const Reducer& reducer() const { return *reducer_; }
  // After its state was reset, or it got another group.
  void set_hook();

  void on_gradient(size_t index) override;
  void on_output(uint64_t /*graph*/) override {}

 private:
  DelayedGradients() = default;
  Future<at::Tensor> take(const GradBucket& bucket);
  void open_gates();
  void end_backward();

  std::unique_ptr<Reducer> reducer_;
  std::optional<GradHooks> trigger_;

  std::mutex mutex_;
  bool triggered_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // in this backward
  // Of buckets that wait for it.
  std::vector<std::shared_ptr<Promise<void>>> gates_
      LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail

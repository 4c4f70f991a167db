// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ddp/bucket.h"
#include "ddp/grad_access.h"
#include "ddp/grad_hooks.h"
#include "ddp/module_parts.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/reducer.h"

namespace lockstep::detail {

// Averages the gradients of chosen parameters apart from the Reducer's buckets:
// together, on a lane of their own, once they are all there and that of the
// trigger is. The Reducer's end of backward waits for them.
//
// Threads: hooks come on autograd's threads; mutex_ guards the rest.
class DelayedGradients : public BackwardListener,
                         public std::enable_shared_from_this<DelayedGradients> {
 public:
  // A collective that blocks. `reducer` must live longer.
  static std::shared_ptr<DelayedGradients> make(const ModuleParts& parts,
                                                const std::string& trigger,
                                                Reducer& reducer,
                                                ProcessGroup& group,
                                                const DdpOptions& options);

  // A forward whose backward is to be reduced. Errors: UsageError names those
  // that the last backward left out.
  void expect();

  void on_gradient(size_t index) override;
  void on_output(uint64_t /*graph*/) override {}

 private:
  struct Place {
    size_t bucket;
    size_t position;
  };

  DelayedGradients(Reducer& reducer, std::shared_ptr<ProcessGroup> lane);
  void launch_if_complete();
  void check_complete() const;
  void end_backward();

  Reducer& reducer_;
  const std::shared_ptr<ProcessGroup> lane_;
  const GradAccess access_;
  std::vector<std::string> names_;                // the delayed
  std::vector<std::unique_ptr<Bucket>> buckets_;  // one for each type
  std::vector<Place> places_;                     // by delayed parameter
  size_t trigger_ = 0;                            // may be one of them
  std::string trigger_name_;
  std::optional<GradHooks> hooks_;

  mutable std::mutex mutex_;
  bool expecting_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool ends_here_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // of this backward
  bool triggered_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::vector<bool> arrived_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail

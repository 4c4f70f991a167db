// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/future.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/ddp_options.h"
#include "lockstep/ddp/ddp_stats.h"
#include "lockstep/ddp/reducer.h"
#include "lockstep/ddp/wrapped_model.h"
#include "lockstep/hook/comm_hook.h"

namespace lockstep {

// Synchronises buffers instead of the wrapper, on `group`, which is the
// wrapper's own. All ranks get the same buffers in the same order. The end of
// backward waits for the futures that the hook returns.
using BufferHook = std::function<std::vector<Future<void>>(
    ProcessGroup& group, const NamedTensors& buffers)>;
enum class BufferHookTime { kBeforeForward, kAfterForward };

// The part of DistributedDataParallel<M> that is the same for every M: all but
// forward itself. For a model of another kind, derive from it and call
// begin_forward() and end_forward() around the model's forward.
//
// Threads:   as for a training loop: one thread at a time.
// Ownership: shares the model and the group with their owners.
// Errors:    the constructor throws UsageError for a module that cannot be
//            trained in parallel (no parameter requires a gradient, a
//            parameter is not on the CPU or has no storage, a name does not
//            exist), and MismatchError on all ranks when the ranks differ or
//            one of them has such an error. A step: see Reducer.
class DataParallelCore {
 public:
  // A collective that blocks, unless options.init_sync is off.
  DataParallelCore(std::shared_ptr<WrappedModel> model,
                   std::shared_ptr<ProcessGroup> group, DdpOptions options);
  virtual ~DataParallelCore();
  DataParallelCore(const DataParallelCore&) = delete;
  DataParallelCore& operator=(const DataParallelCore&) = delete;

  // ---- Steps that do not synchronise.

  // While the guard lives, forward and backward accumulate gradients on this
  // rank alone; the next step outside of it reduces the sum. Nests.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DataParallelCore& core);

   private:
    std::vector<std::unique_ptr<Reducer::NoSync>> guards_;
  };
  NoSync no_sync();

  // ---- How gradients are reduced; see Reducer. With init_sync off, the first
  // of these calls, no_sync() or forward makes the Reducer: a collective.

  void register_comm_hook(CommHook hook, const std::string& name = "");
  void install_futures(const std::vector<Future<void>>& futures);
  void set_optimizer_in_backward(bool on = true);
  void set_static_graph();
  void set_sparse_metadata(const std::map<std::string, at::Tensor>& rows);

  // ---- Buffers.

  // Can be called once. The hook runs in every synchronised forward of
  // training.
  void register_buffer_hook(
      BufferHook hook, BufferHookTime when = BufferHookTime::kBeforeForward);
  // Gives all ranks rank 0's buffers now, for instance after the program has
  // changed some on one rank. A collective that blocks.
  void sync_buffers();

  // ---- The group.

  // Continues among the ranks of another group: compares and synchronises them
  // as the constructor does. A collective that blocks. A hook must be
  // registered again.
  void update_process_group(std::shared_ptr<ProcessGroup> group);
  // After a failed step: the same in the same group, so that ranks that have
  // made different numbers of steps have equal weights again.
  void reset_state();
  // From now on forward and backward are those of the module alone.
  void remove_hooks();
  // Throws the error of an unfinished reduction, if there is one.
  void check_finalized() const;

  // ---- What there is.

  Reducer& reducer();  // of all but delayed parameters
  // For objects that may outlive this wrapper: an optimizer, a hook.
  class Handle;
  Handle handle() const;
  const BucketPlan& bucket_plan();
  DdpStats stats() const;
  const DdpOptions& options() const;

 protected:
  // Call these before and after the module's forward. begin_forward() is true
  // when gradients of this forward will be reduced. end_forward() gets that
  // answer and every tensor of the output, and may replace a tensor by an equal
  // one.
  bool begin_forward();
  void end_forward(const std::vector<at::Tensor*>& outputs, bool synced);
  // In the place of end_forward() when forward has thrown.
  void abandon_forward();
  // Between the two: an argument of forward in the type that the module
  // computes in; see mixed_precision.h.
  at::Tensor lowered(const at::Tensor& input) const;

 private:
  struct State;

  // How it is made.
  std::string try_to_take_apart();
  void agree(ProcessGroup& group, const std::string& problem);
  void send_values();
  void make_reducers();
  void end_delayed();
  using Cores = std::vector<std::shared_ptr<detail::ReducerCore>>;
  // Of the delayed parameters, if there are any, and of the others.
  Cores cores();

  // A step.
  bool is_low() const;  // parameters are in another type, for forward
  void run_buffer_hook(BufferHookTime when);
  void prepare(const std::vector<at::Tensor*>& outputs);
  void watch_eval(const std::vector<at::Tensor*>& outputs);

  const std::unique_ptr<State> state_;
  const std::shared_ptr<DataParallelCore*> self_;
};

// A reference to a wrapper that may be gone.
class DataParallelCore::Handle {
 public:
  explicit Handle(std::weak_ptr<DataParallelCore*> core)
      : core_(std::move(core)) {}

  // Null when the wrapper is gone.
  DataParallelCore* get() const {
    const auto core = core_.lock();
    return core ? *core : nullptr;
  }
  // Errors: UsageError "the wrapped model no longer exists".
  DataParallelCore& operator*() const;
  DataParallelCore* operator->() const { return &**this; }

 private:
  std::weak_ptr<DataParallelCore*> core_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/backward_tracker.h"
#include "ddp/reducer/bucket_queue.h"
#include "ddp/reducer/finite_watch.h"
#include "ddp/reducer/grad_access.h"
#include "ddp/reducer/grad_hooks.h"
#include "ddp/reducer/lanes.h"
#include "ddp/reducer/notices.h"
#include "ddp/reducer/order_agreement.h"
#include "ddp/reducer/parameter_set.h"
#include "ddp/reducer/ready_counter.h"
#include "ddp/reducer/rebuild.h"
#include "ddp/reducer/step_clock.h"
#include "ddp/reducer/step_phase.h"
#include "ddp/reducer/step_report.h"
#include "ddp/reducer/unused_parameters.h"
#include "ddp/reducer/used_map.h"
#include "lockstep/base/thread.h"
#include "lockstep/ddp/reducer_options.h"
#include "lockstep/hook/comm_hook.h"

namespace lockstep::detail {

// What a Reducer is: the state of a step, and the parts it decides with. The
// step itself is in reducer.cc, from top to bottom; how a Reducer is made and
// reset in reducer_setup.cc. The public class has functions of the same names;
// reducer.h says what they do.
//
// Threads:   autograd's hooks may come on several threads; mutex_ guards
//            everything that a step changes and is never held in a
//            communication hook or a notice.
// Ownership: autograd's hooks and the ends of backwards refer to it by weak
//            pointers, which they lock for the time of a call.
class ReducerCore : public BackwardListener,
                    public std::enable_shared_from_this<ReducerCore> {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Group = std::shared_ptr<ProcessGroup>;

  static std::shared_ptr<ReducerCore> make(Tensors parameters, Group group,
                                           ReducerOptions options);
  ~ReducerCore() override;

  // ---- The step, in the order in which it happens.

  void prepare_for_forward();
  void prepare_for_backward(const Tensors& outputs);
  void on_output(uint64_t graph) override;
  void on_gradient(size_t parameter) override;
  void mark_ready(size_t parameter);
  void finish_backward();
  void check_finalized();
  void check_parameters();

  // ---- Buckets.

  bool should_rebuild_buckets();
  bool rebuild_buckets();
  void set_bucket_plan(BucketPlan plan);
  std::vector<GradBucket> grad_buckets(bool zeros);
  HookContext hook_context();
  Future<at::Tensor> run_comm_hook(const GradBucket& bucket);

  // ---- Settings.

  void add_no_sync(int change);
  void set_gradient_map(std::shared_ptr<GradientMap> map);
  void register_comm_hook(CommHook hook, const std::string& name);
  void install_futures(const std::vector<Future<void>>& futures);
  void set_optimizer_in_backward(bool on);
  void set_static_graph();
  void set_sparse_metadata(const std::map<std::string, at::Tensor>& rows);
  void set_divisor(int ranks);
  // Adds a notice, between steps.
  template <class List, class Notice>
  void add_notice(const char* call, List Notices::*list, Notice notice) {
    const std::lock_guard lock(mutex_);
    phase_.check_between_steps(call);
    (notices_.*list).add(std::move(notice), call);
  }
  void record_arrival_of_all();
  void remove_autograd_hooks();
  // update_process_group(), and without a group reset_state().
  void reset(Group new_parent = nullptr);

  // ---- What there is, and what happened.

  const ParameterSet& parameters() const { return parameters_; }
  const BucketPlan& bucket_plan() const { return queue_.plan(); }
  const Group& group() const { return lanes_.own(); }
  const std::string& comm_hook_name() const { return hook_.name; }
  at::Tensor local_used_map();
  bool is_syncing();
  StepReport report();

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Hook {
    CommHook call = hooks::all_reduce();
    std::string name = "all_reduce";
    bool is_registered = false;       // by a program, since the last reset
    bool updates_parameters = false;  // so results are not copied to gradients
  };
  // Settings that hold for one backward: the next, or the one that runs.
  struct Coming {
    std::vector<Future<void>> futures;         // its end waits for them
    std::map<size_t, at::Tensor> sparse_rows;  // by parameter
    int divisor = 0;                           // 0: the number of ranks
  };

  ReducerCore(ParameterSet parameters, Group group, ReducerOptions options);

  // The step; functions with a `lock` are called with it held.
  void start_cycle();
  bool expects_gradients() const;
  void begin_reducing(Lock& lock);
  std::vector<size_t> find_unused();
  void accept(size_t parameter, bool is_unused, Lock& lock);
  void launch_ready_buckets(Lock& lock);
  Future<at::Tensor> launch(const Bucket& bucket, size_t index);
  Future<at::Tensor> run_hook(const GradBucket& bucket, size_t bytes);
  void follow_this_task();
  void end_task(const EngineTask& task);
  void end_cycle(Lock& lock);
  void finalize(Lock& lock);
  void collect_results(Lock& lock);
  void wait_for_futures(Lock& lock, Deadline::Duration patience);

  // How it fails.
  std::string unfinished() const;  // the text of an error
  void refuse_to_go_again() const;
  void warn_of_bypass();
  [[noreturn]] void fail(std::exception_ptr error, Lock& lock);
  // Runs a part of the step; what it throws ends the step.
  template <class Body>
  void in_step(Lock& lock, const Body& body) {
    try {
      body();
    } catch (...) {
      fail(std::current_exception(), lock);
    }
  }

  // Making and resetting.
  void track_use();
  void build_buckets(BucketPlan plan);
  std::unique_ptr<Bucket> make_bucket(const std::vector<size_t>& indices);
  bool finish_rebuild(Lock& lock);
  void forget_step();

  const ParameterSet parameters_;
  ReducerOptions options_;
  Group parent_;
  Lanes lanes_;
  std::optional<GradHooks> grad_hooks_;
  GradAccess access_;
  Hook hook_;
  Notices notices_;

  std::mutex mutex_;
  StepPhase phase_ LOCKSTEP_GUARDED_BY(mutex_);
  BackwardTracker tracker_ LOCKSTEP_GUARDED_BY(mutex_);
  BucketQueue queue_ LOCKSTEP_GUARDED_BY(mutex_);
  ReadyCounter counter_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<UsedMap> used_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<FiniteWatch> finite_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<UnusedParameters> unused_ LOCKSTEP_GUARDED_BY(mutex_);
  RebuildWatch rebuild_ LOCKSTEP_GUARDED_BY(mutex_);
  OrderAgreement new_order_ LOCKSTEP_GUARDED_BY(mutex_);
  StepClock clock_ LOCKSTEP_GUARDED_BY(mutex_);
  Coming coming_ LOCKSTEP_GUARDED_BY(mutex_);
  int64_t iterations_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  int64_t backwards_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  int no_sync_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // how many guards live
  // prepare_for_backward() or no_sync() was called at least once.
  bool was_prepared_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool warned_of_bypass_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::detail

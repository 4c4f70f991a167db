// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/bucket.h"
#include "ddp/engine_task.h"
#include "ddp/grad_access.h"
#include "ddp/grad_hooks.h"
#include "ddp/ready_counter.h"
#include "ddp/rebuild.h"
#include "ddp/step_clock.h"
#include "ddp/unused_parameters.h"
#include "ddp/used_map.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/reducer_options.h"
#include "lockstep/hook/comm_hook.h"

namespace lockstep::detail {

// Where a Reducer is in a step.
enum class Phase {
  kIdle,        // gradients are nobody's business
  kExpecting,   // a forward was prepared
  kReducing,    // backward runs
  kFinalizing,  // backward has ended, buckets may still travel
  kFailed,      // until reset
};
const char* to_text(Phase phase);

// What a Reducer is: the state of a step, and the parts it decides with. The
// step itself is in reducer.cc, with its details in reducer_cycle.cc; making
// and remaking in reducer_setup.cc.
//
// Threads:   autograd's hooks may come on several threads; mutex_ guards all
//            that a step changes and is never held in a communication hook.
// Ownership: hooks and callbacks hold it weakly, or for the time of a call.
class ReducerCore : public BackwardListener,
                    public std::enable_shared_from_this<ReducerCore> {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lock = std::unique_lock<std::mutex>;

  static std::shared_ptr<ReducerCore> make(Tensors parameters,
                                           std::shared_ptr<ProcessGroup> group,
                                           ReducerOptions options);
  ~ReducerCore() override;

  // ---- The step, in the order in which it happens.

  void prepare_for_forward();
  void prepare_for_backward(const Tensors& outputs);
  void on_output(uint64_t graph) override;
  void on_gradient(size_t parameter) override;
  void mark_ready_by_hand(size_t parameter);
  void finish_backward();
  void check_finalized();
  void check_hooks();

  // ---- Buckets.

  bool should_rebuild_buckets();
  bool rebuild_buckets();
  std::vector<GradBucket> grad_buckets(bool zeros);
  Future<at::Tensor> run_comm_hook(const GradBucket& bucket);
  Future<at::Tensor> run_all_reduce_hook(const GradBucket& bucket);

  // ---- Settings.

  void add_no_sync(int change);
  void set_gradient_map(std::shared_ptr<GradientMap> map);
  void register_comm_hook(CommHook hook, const std::string& name);
  void install_futures(const std::vector<Future<void>>& futures);
  void set_optimizer_in_backward(bool on);
  void set_static_graph();
  void set_sparse_metadata(const std::map<std::string, at::Tensor>& rows);
  void set_divisor(int ranks);
  int divisor() const;
  void on_plan_change(std::function<void(const BucketPlan&)> notice);
  void on_first_launch(std::function<void()> notice);
  void on_end(std::function<void()> notice);
  void record_arrival_of_all();
  void set_group(std::shared_ptr<ProcessGroup> group);
  void reset_state();
  void remove_autograd_hooks();

  // ---- What there is.

  const BucketPlan& plan() const { return plan_; }
  const std::shared_ptr<ProcessGroup>& lane() const { return lane_; }
  at::Tensor local_used_map();
  int64_t iterations();
  int64_t backwards();
  std::vector<std::chrono::nanoseconds> backward_times();
  bool has_rebuilt_buckets();
  StepTimes last_step();
  StepTotals all_steps();
  bool is_syncing();
  std::vector<size_t> unused_parameters();
  const std::string& comm_hook_name() const { return hook_name_; }
  bool is_graph_static();
  std::exception_ptr error();

 private:
  using Clock = std::chrono::steady_clock;
  struct Place {
    size_t bucket;
    size_t position;
  };
  // A forward that was prepared.
  struct Forward {
    uint64_t graph;
    std::weak_ptr<const void> alive;  // while its graph is
    bool is_new = true;               // since the last reduction
    bool reached = false;             // by backward
  };
  // A backward whose end we wait for.
  struct OpenTask {
    EngineTask task;
    std::weak_ptr<const void> alive;  // until it ends, well or not
  };

  ReducerCore(Tensors parameters, std::shared_ptr<ProcessGroup> group,
              ReducerOptions options);

  // The step; `lock` is held where it is given.
  void enter(Phase next);
  void start_cycle();
  void begin_reducing(Lock& lock);
  bool expects_gradients() const;
  bool has_open_task();
  void end_with_this_task();
  void close_task(const EngineTask& task);
  void note_times();
  void refuse_to_go_again() const;
  void on_backward_end(const EngineTask& task);
  void end_cycle(Lock& lock);
  void mark_unused(const std::vector<size_t>& parameters, Lock& lock);
  void mark_ready(size_t parameter, bool is_unused, Lock& lock);
  void launch_ready_buckets(Lock& lock);
  Future<at::Tensor> launch(const Bucket& bucket, size_t index);
  Future<at::Tensor> run_hook(const Bucket& bucket, size_t index);
  void agree_on_skips(const std::vector<size_t>& unused);
  void finalize(Lock& lock);
  void forget_forwards();
  void collect_results();
  std::vector<size_t> missing() const;
  std::string unfinished() const;  // for an error about those
  void check_usable() const;
  void warn_of_bypass();
  void check_map_has(size_t parameter) const;
  [[noreturn]] void fail(const std::exception_ptr& error, Lock& lock);
  // Runs a part of the step; what it throws ends the step.
  template <class Body>
  void in_step(Lock& lock, const Body& body) {
    try {
      body();
    } catch (...) {
      fail(std::current_exception(), lock);
    }
  }

  // Making and remaking.
  BucketPlan first_plan() const;
  void begin_reset();
  void end_reset();
  void open_lane();
  void track_use();
  void build_buckets(BucketPlan plan);
  std::unique_ptr<Bucket> make_bucket(const std::vector<size_t>& members);
  void check_between_steps(const char* call) const;

  const Tensors parameters_;
  ReducerOptions options_;
  const std::vector<std::string> names_;
  const std::vector<PlanItem> items_;
  std::shared_ptr<ProcessGroup> parent_;
  std::shared_ptr<ProcessGroup> lane_;
  std::optional<GradHooks> grad_hooks_;
  GradAccess access_;
  CommHook hook_;
  std::string hook_name_ = "all_reduce";
  bool hook_is_fixed_ = false;
  std::function<void(const BucketPlan&)> plan_notice_;
  std::function<void()> launch_notice_;
  std::function<void()> end_notice_;
  BucketPlan plan_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;  // by parameter

  std::mutex mutex_;
  Phase phase_ LOCKSTEP_GUARDED_BY(mutex_) = Phase::kIdle;
  std::exception_ptr error_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<Forward> forwards_ LOCKSTEP_GUARDED_BY(mutex_);
  bool expects_unwatched_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::vector<OpenTask> open_tasks_ LOCKSTEP_GUARDED_BY(mutex_);
  ReadyCounter counter_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<UsedMap> used_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<UnusedParameters> unused_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<bool> skips_ LOCKSTEP_GUARDED_BY(mutex_);   // by bucket, or none
  bool reduce_used_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // in this cycle
  ArrivalOrder arrival_ LOCKSTEP_GUARDED_BY(mutex_);
  // What the first reduction has shown, for the rebuild; empty before and
  // after.
  std::vector<size_t> seen_order_ LOCKSTEP_GUARDED_BY(mutex_);
  size_t next_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // bucket to launch
  bool launching_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  StepClock clock_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<Future<void>> futures_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<Clock::time_point> ready_times_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<std::chrono::nanoseconds> last_times_ LOCKSTEP_GUARDED_BY(mutex_);
  // By parameter, for the coming backward.
  std::map<size_t, at::Tensor> sparse_rows_ LOCKSTEP_GUARDED_BY(mutex_);
  Clock::time_point prepared_at_ LOCKSTEP_GUARDED_BY(mutex_);
  uint64_t next_graph_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  uint64_t oldest_graph_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // since a reset
  int64_t iterations_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  int64_t backwards_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  int no_sync_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  bool is_asked_ LOCKSTEP_GUARDED_BY(mutex_) = false;  // to reduce, or not to
  int divisor_ LOCKSTEP_GUARDED_BY(mutex_) = 0;        // 0: the number of ranks
  bool has_rebuilt_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool optimizer_in_backward_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::detail

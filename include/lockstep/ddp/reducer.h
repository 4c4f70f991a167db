// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/future.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/finite_check.h"
#include "lockstep/ddp/gradient_map.h"
#include "lockstep/ddp/reducer_options.h"
#include "lockstep/ddp/step_times.h"
#include "lockstep/hook/comm_hook.h"
#include "lockstep/hook/grad_bucket.h"
#include "lockstep/hook/hook_context.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep {

namespace detail {
class ReducerCore;
}  // namespace detail
class DataParallelCore;

// A Reducer averages gradients over all ranks while backward still runs.
//
// It needs no module, only parameters that require gradients:
//
//   Reducer reducer(parameters, world);
//   for (...) {
//     zero_gradients(parameters);
//     reducer.prepare_for_forward();
//     at::Tensor loss = my_loss(parameters, batch);
//     reducer.prepare_for_backward({loss});
//     loss.backward();                     // gradients are averages now
//     my_update(parameters);
//   }
//
// Gradients are packed into buckets. When the last gradient of a bucket has
// been computed the bucket is sent, in the same order on every rank, and
// backward goes on; at its end it waits for what is not done yet.
//
// Give prepare_for_backward the loss, or all tensors through which the loss
// depends on these parameters: a hook on these tensors finds out where the
// outermost backward ends. Prepare only forwards that will have a backward. A
// backward without a prepare_for_backward before it, or inside no_sync(),
// leaves gradients to accumulate on this rank alone.
//
// Threads:   as for a training loop: one thread at a time. Gradients may come
//            on any of autograd's threads.
// Ownership: the parameters are shared with their owner. The group is
//            duplicated, so collectives of the program do not interleave with
//            these. Destroying a Reducer takes its hooks off the parameters;
//            gradients stay where they are and stay valid.
// Errors:    the constructor: UsageError for parameters that cannot be reduced
//            (none, not leaves, the same one twice, another device),
//            MismatchError when ranks differ. A step: UsageError out of
//            backward() names the parameters that got no gradient or two;
//            errors of the group are thrown as they are. After a failed step
//            the Reducer cannot be used, on all ranks: reset_state() it or make
//            a new one.
class Reducer {
 public:
  using Tensors = std::vector<at::Tensor>;

  // A collective that blocks: all ranks make theirs.
  Reducer(Tensors parameters, std::shared_ptr<ProcessGroup> group,
          ReducerOptions options = {});
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // ---- A step.

  // Counts the iteration. When buckets are to be rebuilt in the order in which
  // gradients came, it also asks rank 0 for that order: a collective, which
  // runs beside forward.
  void prepare_for_forward();

  // From now until the end of the next backward, gradients are reduced. May be
  // called for several forwards before one backward. Rebuilds buckets when that
  // is due. Errors: UsageError "Expected to have finished reduction" when the
  // last backward never ended.
  void prepare_for_backward(const Tensors& outputs);

  // While the guard lives, both calls above do nothing: gradients accumulate on
  // this rank and are reduced with those of the next step. Guards may nest.
  class NoSync {
   public:
    explicit NoSync(std::shared_ptr<detail::ReducerCore> core);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    const std::shared_ptr<detail::ReducerCore> core_;
  };
  [[nodiscard]] NoSync no_sync();

  bool is_syncing() const;  // true while no such guard lives

  // Throws the error of an unfinished reduction, if there is one.
  void check_finalized() const;
  // Errors: UsageError names a parameter that was converted, as by
  // module->to(dtype): the Reducer does not get its gradients any more.
  void check_parameters() const;

  // ---- Gradients that no backward() brings, after prepare_for_backward({}).

  // The gradient of a parameter is there.
  void mark_ready(size_t parameter);
  // Waits until all gradients are averages.
  void finish_backward();

  // From now on gradients are read and written in `map`; null: in `.grad`, as
  // at first. Between steps. Gradients in the old place stay there unchanged.
  void set_gradient_map(std::shared_ptr<GradientMap> map);

  // ---- How gradients are reduced.

  // Once, between steps; and once more after a reset. `name` is for errors; if
  // it is empty they use the hook's own.
  void register_comm_hook(CommHook hook, const std::string& name = "");
  // The end of the backward that runs, or else of the next one, waits for these
  // futures too.
  void install_futures(const std::vector<Future<void>>& futures);
  // The hook updates the parameters itself: its results do not become gradients
  // any more.
  void set_optimizer_in_backward(bool on = true);
  // Only before the first step.
  void set_static_graph();
  // For one backward: by name of a sparse parameter the rows, ascending, that
  // have gradients on any rank. Only these rows are sent, as a dense block.
  void set_sparse_metadata(const std::map<std::string, at::Tensor>& rows);
  // For one backward: sums are divided by this instead of the number of ranks.
  // A hook finds it in its context.
  void set_divisor(int ranks);
  int divisor() const;

  // ---- Buckets.

  const BucketPlan& bucket_plan() const;
  bool should_rebuild_buckets() const;
  bool has_rebuilt_buckets() const;
  // Rebuilds buckets if should_rebuild_buckets(), which is a collective then;
  // true if the plan has changed.
  bool rebuild_buckets();
  // Uses this plan from now on, between steps; it is not rebuilt. A collective
  // that blocks: all ranks give the same plan.
  void set_bucket_plan(BucketPlan plan);
  // The same by tensor. Tensors that are not reduced here (frozen, ignored) and
  // second mentions of a tensor are left out, a bucket of several types becomes
  // a bucket for each type, and parameters that are in no bucket come last.
  void set_bucket_plan(const std::vector<Tensors>& buckets);
  // Each bucket as a hook gets it, filled with zeros or unchanged.
  std::vector<GradBucket> grad_buckets(bool zeros = true);

  // ---- Notices. Any number of each may be added, between steps. They are
  // called in the order in which they were added, until
  // remove_autograd_hooks().

  // In every reduced backward, when its first bucket has been launched: the
  // place for a small collective on group() that is to run beside backward.
  void on_first_launch(std::function<void()> notice);
  // In every reduced backward, when it has ended and all buckets are launched,
  // before it waits for them.
  void on_backward_end(std::function<void()> notice);
  // Before buckets change, with the old and the new plan.
  using PlanNotice =
      std::function<void(const BucketPlan& before, const BucketPlan& after)>;
  void on_plan_change(PlanNotice notice);
  void on_plan_change(std::function<void(const BucketPlan& after)> notice);
  // After update_process_group() or reset_state(), with the new group().
  using GroupNotice = std::function<void(const std::shared_ptr<ProcessGroup>&)>;
  void on_group_change(GroupNotice notice);

  // ---- For a rank that takes part without data of its own.

  // The context that the hook would get with its next bucket.
  HookContext hook_context();

  Future<at::Tensor> run_comm_hook(const GradBucket& bucket);
  Future<at::Tensor> run_all_reduce_hook(const GradBucket& bucket);
  // By parameter: 1 if this rank has used it since the last reduction, else 0.
  // A tensor of 32-bit integers; undefined without unused detection.
  at::Tensor local_used_map() const;
  // Acts as if all gradients had come, in the order of the plan.
  void record_arrival_of_all();

  // ---- The group.

  // This Reducer's own lane, on which hooks should launch.
  const std::shared_ptr<ProcessGroup>& group() const;
  // Another lane among the same ranks, by name. All lanes of a Reducer fail
  // together and are reset together, so that no rank waits on one lane because
  // another has failed. The first call with a name opens the lane: a collective
  // that blocks.
  std::shared_ptr<ProcessGroup> lane(const std::string& name);
  // Make new buckets among the ranks of another group, or of the same group
  // after a failure. A half-finished backward is forgotten. Collectives that
  // block.
  void update_process_group(std::shared_ptr<ProcessGroup> group);
  void reset_state();
  // Ends all reducing; the destructor does it too.
  void remove_autograd_hooks();

  // ---- What there is, and what happened.

  const Tensors& parameters() const;
  const std::vector<std::string>& names() const;  // by parameter

  int64_t iterations() const;
  int64_t backwards() const;  // in which gradients were reduced
  // By parameter, in the last such backward: the time from prepare_for_backward
  // to the gradient.
  std::vector<std::chrono::nanoseconds> backward_times() const;
  // Times of the last such backward, and of all.
  StepTimes last_step() const;
  StepTotals all_steps() const;
  // With FiniteCheck::kVerdict, of the last backward: the first gradient of any
  // rank that was not finite; the same on all ranks.
  std::optional<NonFiniteGradient> non_finite() const;
  // Parameters that got no gradient in the last such backward on this rank;
  // empty without unused detection.
  std::vector<size_t> unused_parameters() const;
  const std::string& comm_hook_name() const;
  // False once the set of unused parameters has changed between two steps.
  bool is_graph_static() const;
  // What ended the last step, or null.
  std::exception_ptr error() const;

 private:
  friend class DataParallelCore;
  const std::shared_ptr<detail::ReducerCore> core_;
};

}  // namespace lockstep

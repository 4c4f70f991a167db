// SPDX-License-Identifier: Apache-2.0
// One training step, from top to bottom: a forward is prepared, gradients
// arrive, buckets are launched in order, and the end of backward waits for
// them.
#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "ddp/messages.h"
#include "ddp/reducer_core.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {

// Every change of phase. A failure may come at any time, and so may a reset,
// which goes back to Idle.
void ReducerCore::enter(Phase next) {
  const bool legal =
      (phase_ == Phase::kIdle && next == Phase::kExpecting) ||
      (phase_ == Phase::kExpecting && next == Phase::kReducing) ||
      (phase_ == Phase::kReducing && next == Phase::kFinalizing) ||
      next == Phase::kIdle || next == Phase::kFailed;
  LOCKSTEP_ASSERT(legal);
  phase_ = next;
}

void ReducerCore::prepare_for_forward() {
  {
    const Lock lock(mutex_);
    if (no_sync_ > 0) return;
    check_usable();
    ++iterations_;
  }
  rebuild_buckets();
}

void ReducerCore::prepare_for_backward(const Tensors& outputs) {
  Lock lock(mutex_);
  if (no_sync_ > 0 || !grad_hooks_) return;
  is_asked_ = true;
  check_usable();
  if (phase_ == Phase::kReducing) {
    in_step(lock, [&] { throw UsageError(unfinished()); });
  }
  const auto alive = watch_outputs(outputs, next_graph_, weak_from_this());
  const bool needs_end =
      options_.static_graph || options_.backwards_per_forward > 1;
  LOCKSTEP_CHECK(!needs_end || !alive.expired(), UsageError,
                 "prepare_for_backward needs the loss, or outputs that it is "
                 "computed from: a static graph, and several backwards per "
                 "forward, must know where a backward ends");
  forget_forwards();
  if (alive.expired()) {
    expects_unwatched_ = true;
  } else {
    forwards_.push_back({next_graph_++, alive});
  }
  if (phase_ == Phase::kIdle) {
    enter(Phase::kExpecting);
    start_cycle();
  }
}

// Backward has come to prepared outputs: its end is the end of the cycle.
void ReducerCore::on_output(uint64_t graph) {
  if (EngineTask::current().is_partial()) return;  // no gradients for us
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  if (!grad_hooks_ || phase_ == Phase::kFailed || graph < oldest_graph_) return;
  const auto forward =
      std::find_if(forwards_.begin(), forwards_.end(),
                   [&](const Forward& one) { return one.graph == graph; });
  if (forward == forwards_.end()) return refuse_to_go_again();
  forward->reached = true;
  end_with_this_task();
  if (phase_ != Phase::kExpecting) return;
  in_step(lock, [&] { begin_reducing(lock); });
}

void ReducerCore::on_gradient(size_t parameter) {
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  if (!grad_hooks_) return;
  if (used_) {
    access_.with_grad(parameters_[parameter], [&](const at::Tensor& grad) {
      if (grad.defined()) used_->mark(parameter);
    });
  }
  if (!expects_gradients()) return warn_of_bypass();
  in_step(lock, [&] {
    const EngineTask task = EngineTask::current();
    if (task && access_.has_map()) check_map_has(parameter);
    if (task && !has_open_task() && !task.is_nested()) end_with_this_task();
    if (phase_ == Phase::kExpecting) begin_reducing(lock);
    if (!has_rebuilt_) arrival_.add(parameter);
    switch (counter_.on_gradient(parameter)) {
      case ReadyCounter::Verdict::kReady:
        return mark_ready(parameter, false, lock);
      case ReadyCounter::Verdict::kNotYet:
        return;
      case ReadyCounter::Verdict::kTwice:
        throw UsageError(twice_text(lane_->rank(), parameter, names_[parameter],
                                    options_.find_unused_parameters));
      case ReadyCounter::Verdict::kChanged:
        throw UsageError(
            changed_text(lane_->rank(), parameter, names_[parameter]));
    }
  });
}

void ReducerCore::mark_ready(size_t parameter, bool is_unused, Lock& lock) {
  if (used_ && !used_->is_marked(parameter)) is_unused = true;
  counter_.mark_ready(parameter);
  ready_times_[parameter] = Clock::now();
  const Place place = places_[parameter];
  if (buckets_[place.bucket]->arrive(place.position, is_unused)) {
    launch_ready_buckets(lock);
  }
}

// Launches every bucket that is ready and next: strictly in order, by one
// thread at a time, and without the lock, for hooks are foreign code.
void ReducerCore::launch_ready_buckets(Lock& lock) {
  if (launching_) return;  // the thread that is launching will see our bucket
  launching_ = true;
  while (next_ < buckets_.size() && buckets_[next_]->is_ready()) {
    const size_t index = next_++;
    lock.unlock();
    Future<at::Tensor> result = launch(*buckets_[index], index);
    lock.lock();
    buckets_[index]->set_result(std::move(result));
  }
  const bool all = next_ == buckets_.size();
  launching_ = false;
  // Nobody has told us where the outermost backward ends: this one will do.
  if (all && EngineTask::current() && !has_open_task()) end_with_this_task();
}

void ReducerCore::on_backward_end(const EngineTask& task) {
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  close_task(task);
  if (has_open_task() || phase_ != Phase::kReducing) return;
  in_step(lock, [&] {
    if (counter_.end_backward()) end_cycle(lock);
  });
}

void ReducerCore::finalize(Lock& lock) {
  enter(Phase::kFinalizing);
  at::Tensor used = reduce_used_ ? used_->take() : at::Tensor();
  lock.unlock();
  if (end_notice_) end_notice_();
  if (used.defined()) used_->reduce(*lane_, std::move(used));
  collect_results();
  lock.lock();
  clock_.end();
  if (!has_rebuilt_) seen_order_ = arrival_.order_of(parameters_.size());
  note_times();
  futures_.clear();
  sparse_rows_.clear();
  divisor_ = 0;
  expects_unwatched_ = false;
  forget_forwards();
  enter(Phase::kIdle);
  if (forwards_.empty()) return;
  // Another forward may still have its backward.
  for (Forward& one : forwards_) one.is_new = false;
  enter(Phase::kExpecting);
  start_cycle();
}

}  // namespace lockstep::detail

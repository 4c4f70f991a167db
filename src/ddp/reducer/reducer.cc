// SPDX-License-Identifier: Apache-2.0
// One training step, from top to bottom: a forward is prepared, gradients
// arrive, buckets are launched in order, and the end of backward waits for
// them. A cycle is the time from one reduction to the next.
#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "ddp/reducer/messages.h"
#include "ddp/reducer/reducer_core.h"
#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

// ---- A forward is prepared.

void ReducerCore::prepare_for_forward() {
  const bool is_due = should_rebuild_buckets();
  Lock lock(mutex_);
  if (no_sync_ > 0) return;
  phase_.check_usable();
  ++iterations_;
  if (!is_due || new_order_.is_pending()) return;
  // prepare_for_backward() makes the new buckets: the order travels meanwhile.
  in_step(lock, [&] { new_order_.begin(*group(), rebuild_.take()); });
}

void ReducerCore::prepare_for_backward(const Tensors& outputs) {
  Lock lock(mutex_);
  if (no_sync_ > 0 || !grad_hooks_) return;
  was_prepared_ = true;
  phase_.check_usable();
  if (phase_.is(Phase::kReducing)) {
    in_step(lock, [&] { throw UsageError(unfinished()); });
  }
  finish_rebuild(lock);
  const bool needs_end =
      options_.static_graph || options_.backwards_per_forward > 1;
  tracker_.expect(outputs, weak_from_this(), needs_end);
  if (phase_.is(Phase::kIdle)) {
    phase_.enter(Phase::kExpecting);
    start_cycle();
  }
}

void ReducerCore::start_cycle() {
  counter_.start_cycle();
  rebuild_.start_cycle();
  queue_.start_cycle();
  if (finite_) finite_->start_cycle();
  if (used_) {
    used_->start_cycle(!counter_.is_static() || counter_.is_learning());
  }
  clock_.prepare(parameters_.size());
}

// ---- Backward begins.

// Backward has come to prepared outputs: its end is the end of the cycle.
void ReducerCore::on_output(uint64_t graph) {
  if (EngineTask::current().is_partial()) return;  // some gradients only
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  if (!grad_hooks_ || phase_.is(Phase::kFailed)) return;
  switch (tracker_.reach(graph)) {
    case BackwardTracker::Reached::kForgotten:
      return;
    case BackwardTracker::Reached::kReduced:
      return refuse_to_go_again();
    case BackwardTracker::Reached::kPrepared:
      break;
  }
  follow_this_task();
  if (!phase_.is(Phase::kExpecting)) return;
  in_step(lock, [&] { begin_reducing(lock); });
}

// At the first output or gradient that backward comes to. Parameters that will
// get no gradient are ready at once.
void ReducerCore::begin_reducing(Lock& lock) {
  phase_.enter(Phase::kReducing);
  ++backwards_;
  clock_.begin_backward(queue_.size());
  for (const size_t parameter : find_unused()) accept(parameter, true, lock);
}

std::vector<size_t> ReducerCore::find_unused() {
  const bool search = options_.find_unused_parameters &&
                      options_.backwards_per_forward == 1 && grad_hooks_ &&
                      EngineTask::current();
  std::vector<size_t> unused;
  if (counter_.is_static()) {
    unused = counter_.never_used();
  } else if (search) {
    unused = unused_->find(*grad_hooks_, parameters_.tensors);
  }
  const bool known = counter_.is_static() ? !counter_.is_learning() : search;
  if (options_.skip_unused && known) {
    queue_.set_used(used_->agree(*group(), unused));
  }
  return unused;
}

// ---- Gradients arrive.

// Whether the gradients that come now are to be reduced: their backward was
// prepared. Inside no_sync() only those of a backward that has come to prepared
// outputs.
bool ReducerCore::expects_gradients() const {
  if (phase_.is(Phase::kReducing)) return true;
  return phase_.is(Phase::kExpecting) && no_sync_ == 0 &&
         tracker_.expects_gradients();
}

void ReducerCore::on_gradient(size_t parameter) {
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  if (!grad_hooks_) return;
  const at::Tensor& tensor = parameters_.tensors[parameter];
  const std::string& name = parameters_.names[parameter];
  if (used_ && access_.has_gradient(tensor)) used_->mark(parameter);
  if (!expects_gradients()) return warn_of_bypass();
  in_step(lock, [&] {
    const EngineTask task = EngineTask::current();
    if (task && access_.has_map() && !access_.has_gradient(tensor)) {
      throw UsageError(not_in_map_text(parameter, name));
    }
    if (task && !tracker_.has_open_task() && !task.is_nested()) {
      follow_this_task();
    }
    if (phase_.is(Phase::kExpecting)) begin_reducing(lock);
    rebuild_.add(parameter);
    switch (counter_.on_gradient(parameter)) {
      case ReadyCounter::Verdict::kReady:
        return accept(parameter, false, lock);
      case ReadyCounter::Verdict::kNotYet:
        return;
      case ReadyCounter::Verdict::kTwice:
        throw UsageError(twice_text(group()->rank(), parameter, name,
                                    options_.find_unused_parameters));
      case ReadyCounter::Verdict::kChanged:
        throw UsageError(changed_text(group()->rank(), parameter, name));
    }
  });
}

// The parameter is ready: its gradient is there, or `is_unused`.
void ReducerCore::accept(size_t parameter, bool is_unused, Lock& lock) {
  if (used_ && !used_->is_marked(parameter)) is_unused = true;
  counter_.mark_ready(parameter);
  clock_.note_ready(parameter);
  if (finite_ && !is_unused) {
    access_.with_grad(
        parameters_.tensors[parameter], [&](const at::Tensor& grad) {
          finite_->look_at(grad, queue_.index_of(parameter), parameter,
                           parameters_.names[parameter]);
        });
  }
  if (queue_.arrive(parameter, is_unused)) launch_ready_buckets(lock);
}

// ---- Buckets are launched.

void ReducerCore::launch_ready_buckets(Lock& lock) {
  queue_.launch_ready(lock, [&](const Bucket& bucket, size_t index) {
    return launch(bucket, index);
  });
  // No prepared output was reached, so it is not known which backward is the
  // outermost: the one that runs now counts as the last.
  if (queue_.are_all_launched() && EngineTask::current() &&
      !tracker_.has_open_task()) {
    follow_this_task();
  }
}

Future<at::Tensor> ReducerCore::launch(const Bucket& bucket, size_t index) {
  const int64_t now = trace::now_ns();
  const GradBucket view = bucket.view(index, queue_.size());
  Future<at::Tensor> result = run_hook(view, bucket.bytes());
  if (!view.is_skipped()) clock_.launch(index, now, result);
  if (index == 0) notices_.first_launch();
  return result;
}

Future<at::Tensor> ReducerCore::run_hook(const GradBucket& bucket,
                                         size_t bytes) {
  trace::Span span("launch bucket", "ddp");
  span.arg("bucket", static_cast<int64_t>(bucket.index()));
  span.arg("bytes", static_cast<int64_t>(bytes));
  try {
    std::optional<ErrorPartScope> scope;
    if (hook_.is_registered) {
      scope.emplace(hook_text(bucket.index(), bucket.count(), hook_.name));
    }
    auto result = run_comm_hook(bucket);
    LOCKSTEP_CHECK(result.valid(), UsageError,
                   "'{}' returned an empty Future for bucket {}", hook_.name,
                   bucket.index());
    return result;
  } catch (...) {  // comes out of backward, which names the hook
    return make_failed_future<at::Tensor>(std::current_exception());
  }
}

// ---- Backward ends.

void ReducerCore::follow_this_task() {
  tracker_.follow_this_task([weak = weak_from_this()](const EngineTask& task) {
    if (const auto self = weak.lock()) self->end_task(task);
  });
}

void ReducerCore::end_task(const EngineTask& task) {
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  tracker_.close(task);
  if (tracker_.has_open_task() || !phase_.is(Phase::kReducing)) return;
  in_step(lock, [&] {
    if (counter_.end_backward()) end_cycle(lock);
  });
}

// The last backward of the cycle has ended: a parameter that is not ready now
// gets no further gradient. Where a static graph has not promised a number of
// gradients, the ones that came are enough.
void ReducerCore::end_cycle(Lock& lock) {
  const bool learning = counter_.is_learning();
  const bool promised = counter_.is_static() && !learning;
  std::vector<size_t> unused;
  for (const size_t parameter : counter_.missing()) {
    if (!promised && counter_.has_gradient(parameter)) {
      accept(parameter, false, lock);
    } else if (learning || (!promised && options_.find_unused_parameters)) {
      unused.push_back(parameter);
    }
  }
  if (grad_hooks_) {
    check_hooks_are_on(*grad_hooks_, parameters_.tensors, counter_.missing(),
                       parameters_.names);
  }
  if (learning) counter_.learn();
  for (const size_t parameter : unused) accept(parameter, true, lock);
  if (learning || !unused.empty()) unused_->note(unused, learning);
  if (!queue_.are_all_launched()) throw UsageError(unfinished());
  finalize(lock);
}

void ReducerCore::finalize(Lock& lock) {
  phase_.enter(Phase::kFinalizing);
  at::Tensor used = used_ ? used_->take() : at::Tensor();
  lock.unlock();
  notices_.backward_end();
  if (used.defined()) used_->reduce(*group(), std::move(used));
  if (finite_) finite_->tell(*group());
  collect_results(lock);
  clock_.end();
  rebuild_.end_cycle(parameters_.size());
  coming_ = {};
  const bool expects_another = tracker_.end_cycle();
  phase_.enter(Phase::kIdle);
  if (!expects_another) return;
  phase_.enter(Phase::kExpecting);
  start_cycle();
}

// Waits for the results of all buckets and makes them the gradients. Called
// without the lock, returns with it.
void ReducerCore::collect_results(Lock& lock) {
  // Longer than the group's timeout, because the group's error names ranks.
  constexpr Deadline::Duration longest = std::chrono::hours(24 * 365);
  const auto patience =
      std::min(group()->timeout(), longest) + std::chrono::seconds(5);
  const auto is_used = [&](size_t parameter) {
    return !used_ || used_->is_used_anywhere(parameter);
  };
  const auto is_never_used = [](size_t /*parameter*/) { return false; };
  clock_.begin_waits();
  for (size_t i = 0; i < queue_.size(); ++i) {
    Bucket& bucket = queue_[i];
    const bool came = clock_.wait(bucket.result(), Deadline::in(patience));
    LOCKSTEP_CHECK(came, TimeoutError,
                   "bucket {} of {}: the future of '{}' has not completed "
                   "after {} s; does its hook always set a result?",
                   i, queue_.size(), hook_.name,
                   std::chrono::duration<double>(patience).count());
    const GradBucket view = bucket.view(i, queue_.size());
    try {
      const at::Tensor& value = bucket.result().get(Deadline::in(patience));
      if (!hook_.updates_parameters && view.is_skipped()) {
        bucket.finish(view.buffer(), is_never_used);
      } else if (!hook_.updates_parameters) {
        bucket.finish(value, is_used);
      }
    } catch (...) {
      if (!hook_.is_registered) throw;
      rethrow_with_part(hook_text(i, queue_.size(), hook_.name));
    }
    bucket.release();
  }
  clock_.end_waits();
  if (used_) used_->check();
  if (finite_) finite_->hear(parameters_.names, Deadline::in(patience));
  wait_for_futures(lock, patience);
}

// A future that is installed during this wait is waited for too. Futures that
// come after it belong to the next backward.
void ReducerCore::wait_for_futures(Lock& lock, Deadline::Duration patience) {
  lock.lock();
  while (!coming_.futures.empty()) {
    const auto futures = std::exchange(coming_.futures, {});
    lock.unlock();
    for (const Future<void>& one : futures) one.get(Deadline::in(patience));
    lock.lock();
  }
}

}  // namespace lockstep::detail

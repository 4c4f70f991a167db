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
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

// Every change of phase. Failed can come from anywhere, and ends with a reset.
void ReducerCore::enter(Phase next) {
  const bool legal =
      (phase_ == Phase::kIdle && next == Phase::kExpecting) ||
      (phase_ == Phase::kExpecting && next == Phase::kReducing) ||
      (phase_ == Phase::kReducing && next == Phase::kFinalizing) ||
      (phase_ == Phase::kFinalizing && next == Phase::kIdle) ||
      next == Phase::kFailed;
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
  if (no_sync_ > 0) return;
  check_usable();
  if (phase_ == Phase::kReducing) {
    in_step(lock, [&] {
      throw UsageError(
          unfinished_text(lane_->rank(), missing(), names_, options_));
    });
  }
  const auto alive = watch_outputs(outputs, next_graph_, weak_from_this());
  const bool needs_end =
      options_.static_graph || options_.backwards_per_forward > 1;
  LOCKSTEP_CHECK(!needs_end || !alive.expired(), UsageError,
                 "prepare_for_backward needs the loss, or outputs that it is "
                 "computed from: a static graph, and several backwards per "
                 "forward, must know where a backward ends");
  forwards_.push_back({next_graph_++, false, alive});
  if (phase_ == Phase::kIdle) {
    enter(Phase::kExpecting);
    start_cycle();
  }
}

void ReducerCore::start_cycle() {
  counter_.start_cycle();
  arrival_.clear();
  next_ = 0;
  for (const auto& bucket : buckets_) bucket->expect_all();
  reduce_used_ = used_ && (!counter_.is_static() || counter_.is_learning());
  prepared_at_ = Clock::now();
  ready_times_.assign(parameters_.size(), prepared_at_);
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
  LOCKSTEP_CHECK(forward != forwards_.end(), UsageError, "{}",
                 again_text(lane_->rank()));
  forward->reached = true;
  end_with_this_task(lock);
  if (phase_ != Phase::kExpecting) return;
  in_step(lock, [&] { begin_reducing(lock); });
}

void ReducerCore::on_gradient(size_t parameter) {
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  if (used_) {
    access_.with_grad(parameters_[parameter], [&](const at::Tensor& grad) {
      if (grad.defined()) used_->mark(parameter);
    });
  }
  if (phase_ != Phase::kExpecting && phase_ != Phase::kReducing) return;
  in_step(lock, [&] {
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

// The first sign of backward. Whatever will get no gradient is ready.
void ReducerCore::begin_reducing(Lock& lock) {
  enter(Phase::kReducing);
  ++backwards_;
  if (counter_.is_static()) return mark_unused(counter_.never_used(), lock);
  const bool search = options_.find_unused_parameters &&
                      options_.backwards_per_forward == 1 &&
                      EngineTask::current();
  if (search) mark_unused(find_unused(), lock);
}

void ReducerCore::mark_unused(const std::vector<size_t>& parameters,
                              Lock& lock) {
  for (const size_t parameter : parameters) mark_ready(parameter, true, lock);
}

void ReducerCore::mark_ready(size_t parameter, bool is_unused, Lock& lock) {
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
    Future<at::Tensor> result = run_hook(*buckets_[index], index);
    lock.lock();
    buckets_[index]->set_result(std::move(result));
  }
  launching_ = false;
  if (next_ < buckets_.size()) return;
  if (reduce_used_) used_->reduce(*lane_);
  // Nobody has told us where the outermost backward ends: this one will do.
  if (open_tasks_.empty() && EngineTask::current()) end_with_this_task(lock);
}

Future<at::Tensor> ReducerCore::run_hook(const Bucket& bucket, size_t index) {
  trace::Span span("launch bucket", "ddp");
  span.arg("bucket", static_cast<int64_t>(index));
  span.arg("bytes", static_cast<int64_t>(bucket.bytes()));
  try {
    return run_comm_hook(bucket.view(index, buckets_.size()));
  } catch (...) {  // comes out of backward when its turn is there
    return make_failed_future<at::Tensor>(std::current_exception());
  }
}

void ReducerCore::end_with_this_task(Lock& /*held*/) {
  const EngineTask task = EngineTask::current();
  if (std::count(open_tasks_.begin(), open_tasks_.end(), task) > 0) return;
  open_tasks_.push_back(task);
  EngineTask::at_end([weak = weak_from_this(), task] {
    if (const auto self = weak.lock()) self->on_backward_end(task);
  });
}

void ReducerCore::on_backward_end(const EngineTask& task) {
  const at::NoGradGuard no_grad;
  Lock lock(mutex_);
  open_tasks_.erase(std::remove(open_tasks_.begin(), open_tasks_.end(), task),
                    open_tasks_.end());
  if (!open_tasks_.empty() || phase_ != Phase::kReducing) return;
  in_step(lock, [&] {
    if (counter_.end_backward()) end_cycle(lock);
  });
}

// The last backward of the cycle has ended. What is not ready now never will.
void ReducerCore::end_cycle(Lock& lock) {
  const bool learning = counter_.is_learning();
  const bool tolerant =
      learning || (options_.find_unused_parameters && !counter_.is_static());
  std::vector<size_t> unused;
  for (const size_t parameter : missing()) {
    if (counter_.has_gradient(parameter) &&
        !(counter_.is_static() && !learning)) {
      mark_ready(parameter, false, lock);
    } else if (tolerant) {
      unused.push_back(parameter);
    }
  }
  if (learning) {
    check_hooks(unused);
    counter_.learn();
  }
  mark_unused(unused, lock);
  if (tolerant && !unused.empty()) note_unused(std::move(unused));
  if (next_ < buckets_.size()) {
    check_hooks(missing());
    throw UsageError(
        unfinished_text(lane_->rank(), missing(), names_, options_));
  }
  finalize(lock);
}

void ReducerCore::finalize(Lock& lock) {
  enter(Phase::kFinalizing);
  lock.unlock();
  collect_results();
  lock.lock();
  if (!has_rebuilt_) seen_order_ = arrival_.order_of(parameters_.size());
  futures_.clear();
  divisor_ = 0;
  // A forward whose graph still waits for its backward goes on being expected.
  forwards_.erase(std::remove_if(forwards_.begin(), forwards_.end(),
                                 [](const Forward& one) {
                                   return one.reached || one.alive.expired();
                                 }),
                  forwards_.end());
  enter(Phase::kIdle);
  if (forwards_.empty()) return;
  enter(Phase::kExpecting);
  start_cycle();
}

void ReducerCore::collect_results() {
  const trace::Span span("wait for buckets", "ddp");
  // The group's own error, which names ranks, comes before this.
  const auto patience = lane_->timeout() + std::chrono::seconds(5);
  const auto is_used = [&](size_t parameter) {
    return !used_ || used_->is_used_anywhere(parameter);
  };
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Future<at::Tensor>& result = buckets_[i]->result();
    LOCKSTEP_CHECK(result.wait(Deadline::in(patience)), TimeoutError,
                   "bucket {} of {}: the future of '{}' has not completed "
                   "after {} s; does its hook always set a result?",
                   i, buckets_.size(), hook_name_,
                   std::chrono::duration<double>(patience).count());
    const at::Tensor& value = result.get(Deadline::in(patience));
    if (!optimizer_in_backward_) buckets_[i]->finish(value, is_used);
  }
  for (const Future<void>& future : futures_) {
    future.get(Deadline::in(patience));
  }
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// The parts of a step that reducer.cc calls by name: a cycle, from what is
// expected to what has come, is what ends with one reduction.
#include <algorithm>

#include <fmt/format.h>

#include "ddp/messages.h"
#include "ddp/reducer_core.h"
#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

void ReducerCore::start_cycle() {
  counter_.start_cycle();
  arrival_.clear();
  next_ = 0;
  for (const auto& bucket : buckets_) bucket->expect_all();
  reduce_used_ = used_ && (!counter_.is_static() || counter_.is_learning());
  prepared_at_ = Clock::now();
  ready_times_.assign(parameters_.size(), prepared_at_);
}

// Those that backward has passed, and those whose graph is gone.
void ReducerCore::forget_forwards() {
  const auto is_over = [](const Forward& one) {
    return one.reached || one.alive.expired();
  };
  forwards_.erase(std::remove_if(forwards_.begin(), forwards_.end(), is_over),
                  forwards_.end());
}

// The first sign of backward. Whatever will get no gradient is ready.
void ReducerCore::begin_reducing(Lock& lock) {
  enter(Phase::kReducing);
  ++backwards_;
  if (counter_.is_static()) return mark_unused(counter_.never_used(), lock);
  const bool search = options_.find_unused_parameters &&
                      options_.backwards_per_forward == 1 && grad_hooks_ &&
                      EngineTask::current();
  if (search) mark_unused(unused_->find(*grad_hooks_, parameters_), lock);
}

void ReducerCore::mark_unused(const std::vector<size_t>& parameters,
                              Lock& lock) {
  for (const size_t parameter : parameters) mark_ready(parameter, true, lock);
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

// The last backward of the cycle has ended. What is not ready now never will.
void ReducerCore::end_cycle(Lock& lock) {
  const bool learning = counter_.is_learning();
  const bool open = learning || !counter_.is_static();  // to anything
  std::vector<size_t> unused;
  for (const size_t parameter : missing()) {
    if (open && counter_.has_gradient(parameter)) {
      mark_ready(parameter, false, lock);
    } else if (learning || (open && options_.find_unused_parameters)) {
      unused.push_back(parameter);
    }
  }
  if (grad_hooks_) {
    check_hooks_are_on(*grad_hooks_, parameters_, missing(), names_);
  }
  if (learning) counter_.learn();
  mark_unused(unused, lock);
  if (learning || !unused.empty()) unused_->note(unused, learning);
  if (next_ < buckets_.size()) {
    throw UsageError(
        unfinished_text(lane_->rank(), missing(), names_, options_));
  }
  finalize(lock);
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

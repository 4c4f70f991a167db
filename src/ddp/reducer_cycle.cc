// SPDX-License-Identifier: Apache-2.0
// The parts of a step that reducer.cc calls by name: a cycle, from what is
// expected to what has come, is what ends with one reduction.
#include <algorithm>

#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include "ddp/messages.h"
#include "ddp/reducer_core.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

void ReducerCore::start_cycle() {
  counter_.start_cycle();
  arrival_.clear();
  next_ = 0;
  skips_.clear();
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
  clock_.begin_backward(buckets_.size());
  const bool search = options_.find_unused_parameters &&
                      options_.backwards_per_forward == 1 && grad_hooks_ &&
                      EngineTask::current();
  std::vector<size_t> unused;
  if (counter_.is_static()) {
    unused = counter_.never_used();
  } else if (search) {
    unused = unused_->find(*grad_hooks_, parameters_);
  }
  const bool known = counter_.is_static() ? !counter_.is_learning() : search;
  if (options_.skip_unused && known) agree_on_skips(unused);
  mark_unused(unused, lock);
}

// Which buckets nobody needs, on any rank. The same everywhere, or ranks would
// launch different collectives.
void ReducerCore::agree_on_skips(const std::vector<size_t>& unused) {
  at::Tensor used =
      at::ones({static_cast<int64_t>(parameters_.size())}, at::kInt);
  auto* words = static_cast<int32_t*>(used.data_ptr());
  for (const size_t parameter : unused) {
    // It may have been used before, inside of no_sync().
    words[parameter] = used_->is_marked(parameter) ? 1 : 0;
  }
  CallOptions now;
  now.sync = true;
  all_reduce(*lane_, used, ReduceOp::kMax, now);
  for (const auto& bucket : buckets_) {
    const auto& members = bucket->members();
    skips_.push_back(std::none_of(
        members.begin(), members.end(),
        [&](const Member& member) { return words[member.index] != 0; }));
  }
}

void ReducerCore::mark_unused(const std::vector<size_t>& parameters,
                              Lock& lock) {
  for (const size_t parameter : parameters) mark_ready(parameter, true, lock);
}

Future<at::Tensor> ReducerCore::launch(const Bucket& bucket, size_t index) {
  Future<at::Tensor> result;
  if (!skips_.empty() && skips_[index]) {
    result =
        make_future([buffer = bucket.view(index, buckets_.size()).buffer()] {
          return buffer;
        });
  } else {
    const int64_t now = trace::now_ns();
    result = run_hook(bucket, index);
    clock_.launch(index, now, result);
  }
  if (index == 0 && launch_notice_) launch_notice_();
  return result;
}

Future<at::Tensor> ReducerCore::run_hook(const Bucket& bucket, size_t index) {
  trace::Span span("launch bucket", "ddp");
  span.arg("bucket", static_cast<int64_t>(index));
  span.arg("bytes", static_cast<int64_t>(bucket.bytes()));
  try {
    auto result = run_comm_hook(bucket.view(index, buckets_.size()));
    LOCKSTEP_CHECK(result.valid(), UsageError,
                   "'{}' returned an empty Future for bucket {}", hook_name_,
                   index);
    return result;
  } catch (...) {  // comes out of backward when its turn is there
    return make_failed_future<at::Tensor>(std::current_exception());
  }
}

// A gradient is ours when its backward was prepared: in that of the last
// prepared forward, or of one without outputs. An older forward, whose outputs
// somebody has kept, must be reached first; inside no_sync() all must.
bool ReducerCore::expects_gradients() const {
  if (phase_ == Phase::kReducing) return true;
  if (phase_ != Phase::kExpecting || no_sync_ > 0) return false;
  return expects_unwatched_ ||
         std::any_of(forwards_.begin(), forwards_.end(),
                     [](const Forward& one) {
                       return one.is_new && !one.alive.expired();
                     });
}

// A task that ended with an exception never told us.
bool ReducerCore::has_open_task() {
  const auto is_over = [](const OpenTask& one) { return one.alive.expired(); };
  open_tasks_.erase(
      std::remove_if(open_tasks_.begin(), open_tasks_.end(), is_over),
      open_tasks_.end());
  return !open_tasks_.empty();
}

void ReducerCore::close_task(const EngineTask& task) {
  const auto is_it = [&](const OpenTask& one) { return one.task == task; };
  open_tasks_.erase(
      std::remove_if(open_tasks_.begin(), open_tasks_.end(), is_it),
      open_tasks_.end());
}

void ReducerCore::end_with_this_task() {
  const EngineTask task = EngineTask::current();
  has_open_task();
  for (const OpenTask& one : open_tasks_) {
    if (one.task == task) return;
  }
  const auto alive = std::make_shared<const char>();
  open_tasks_.push_back({task, alive});
  EngineTask::at_end([weak = weak_from_this(), task, alive] {
    if (const auto self = weak.lock()) self->on_backward_end(task);
  });
}

void ReducerCore::note_times() {
  last_times_.clear();
  for (const Clock::time_point& ready : ready_times_) {
    last_times_.push_back(ready - prepared_at_);
  }
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
  if (next_ < buckets_.size()) throw UsageError(unfinished());
  finalize(lock);
}

void ReducerCore::collect_results() {
  // The group's own error, which names ranks, comes before this.
  constexpr Deadline::Duration longest = std::chrono::hours(24 * 365);
  const auto patience =
      std::min(lane_->timeout(), longest) + std::chrono::seconds(5);
  const auto is_used = [&](size_t parameter) {
    return !used_ || used_->is_used_anywhere(parameter);
  };
  clock_.begin_waits();
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Future<at::Tensor>& result = buckets_[i]->result();
    const bool came = clock_.wait(result, Deadline::in(patience));
    LOCKSTEP_CHECK(came, TimeoutError,
                   "bucket {} of {}: the future of '{}' has not completed "
                   "after {} s; does its hook always set a result?",
                   i, buckets_.size(), hook_name_,
                   std::chrono::duration<double>(patience).count());
    const at::Tensor& value = result.get(Deadline::in(patience));
    if (!optimizer_in_backward_) buckets_[i]->finish(value, is_used);
    buckets_[i]->release();
  }
  clock_.end_waits();
  if (used_) used_->check();
  for (const Future<void>& future : futures_) {
    future.get(Deadline::in(patience));
  }
}

}  // namespace lockstep::detail

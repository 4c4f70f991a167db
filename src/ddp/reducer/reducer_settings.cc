// SPDX-License-Identifier: Apache-2.0
// What a program may set and ask.
#include <algorithm>

#include <fmt/format.h>

#include "ddp/reducer/messages.h"
#include "ddp/reducer/reducer_core.h"
#include "ddp/reducer/sparse_bucket.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {

// ---- Gradients that no backward() brings.

void ReducerCore::mark_ready(size_t parameter) {
  LOCKSTEP_CHECK(parameter < parameters_.size(), UsageError,
                 "parameter {} of {}", parameter, parameters_.size());
  {
    const Lock lock(mutex_);
    phase_.check_usable();
    LOCKSTEP_CHECK(expects_gradients(), UsageError,
                   "mark_ready needs a prepare_for_backward before it; the "
                   "Reducer is {}",
                   phase_.text());
  }
  on_gradient(parameter);
}

void ReducerCore::finish_backward() {
  Lock lock(mutex_);
  phase_.check_usable();
  LOCKSTEP_CHECK(
      phase_.is(Phase::kExpecting) || phase_.is(Phase::kReducing), UsageError,
      "finish_backward was called while the Reducer is {}", phase_.text());
  in_step(lock, [&] {
    if (phase_.is(Phase::kExpecting)) begin_reducing(lock);
    if (counter_.end_backward()) end_cycle(lock);
  });
}

// ---- How buckets are reduced.

HookContext ReducerCore::hook_context() {
  const Lock lock(mutex_);
  const int ranks = coming_.divisor == 0 ? group()->size() : coming_.divisor;
  return {group(), ranks, std::max<int64_t>(backwards_ - 1, 0),
          [weak = weak_from_this()](const std::string& name) {
            const auto self = weak.lock();
            LOCKSTEP_CHECK(self != nullptr, UsageError,
                           "lane '{}' was asked for after the Reducer was "
                           "destroyed",
                           name);
            return self->lanes_.get(name);
          }};
}

Future<at::Tensor> ReducerCore::run_comm_hook(const GradBucket& bucket) {
  return hook_.call(bucket, hook_context());
}

void ReducerCore::register_comm_hook(CommHook hook, const std::string& name) {
  const Lock lock(mutex_);
  phase_.check_between_steps("register_comm_hook");
  const std::string called = !name.empty()         ? name
                             : hook.name().empty() ? "hook"
                                                   : hook.name();
  LOCKSTEP_CHECK(hook, UsageError, "the hook '{}' is empty", called);
  LOCKSTEP_CHECK(!hook_.is_registered, UsageError,
                 "a communication hook can be registered once: '{}' is, and "
                 "'{}' came second",
                 hook_.name, called);
  const bool updates = hook_.updates_parameters || hook.updates_parameters();
  hook_ = {std::move(hook), called, true, updates};
}

std::vector<GradBucket> ReducerCore::grad_buckets(bool zeros) {
  std::vector<GradBucket> views;
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (zeros) queue_[i].clear();
    views.push_back(queue_[i].view(i, queue_.size()));
  }
  return views;
}

// ---- Settings.

void ReducerCore::add_no_sync(int change) {
  const Lock lock(mutex_);
  no_sync_ += change;
  was_prepared_ = true;
}

void ReducerCore::set_gradient_map(std::shared_ptr<GradientMap> map) {
  const Lock lock(mutex_);
  phase_.check_between_steps("set_gradient_map");
  for (size_t i = 0; i < queue_.size(); ++i) queue_[i].evict_gradients();
  access_.use_map(std::move(map));
  for (size_t i = 0; i < queue_.size(); ++i) queue_[i].adopt_gradients();
}

void ReducerCore::install_futures(const std::vector<Future<void>>& futures) {
  const Lock lock(mutex_);
  for (const Future<void>& future : futures) {
    LOCKSTEP_CHECK(future.valid(), UsageError, "one of the futures is empty");
  }
  coming_.futures.insert(coming_.futures.end(), futures.begin(), futures.end());
}

void ReducerCore::set_optimizer_in_backward(bool on) {
  const Lock lock(mutex_);
  phase_.check_between_steps("set_optimizer_in_backward");
  hook_.updates_parameters = on;
}

void ReducerCore::set_static_graph() {
  const Lock lock(mutex_);
  LOCKSTEP_CHECK(iterations_ == 0 && backwards_ == 0 && phase_.is(Phase::kIdle),
                 UsageError,
                 "set_static_graph was called after {} iterations; call it "
                 "before the first",
                 iterations_);
  options_.static_graph = true;
  counter_ =
      ReadyCounter(parameters_.size(), true, options_.backwards_per_forward);
  rebuild_ = RebuildWatch(options_, options_.bucket_plan.has_value());
  track_use();
}

void ReducerCore::set_sparse_metadata(
    const std::map<std::string, at::Tensor>& rows) {
  const Lock lock(mutex_);
  phase_.check_between_steps("set_sparse_metadata");
  std::map<std::string, at::Tensor> left = rows;
  std::map<size_t, at::Tensor> checked;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_.items[i].sparse) continue;
    const std::string& name = parameters_.names[i];
    LOCKSTEP_CHECK(left.count(name) > 0, UsageError,
                   "there are no sparse metadata for parameter '{}'; give them "
                   "for all sparse parameters or none",
                   name);
    check_rows(left[name], parameters_.tensors[i], name);
    checked[i] = left[name].clone();
    left.erase(name);
  }
  LOCKSTEP_CHECK(left.empty(), UsageError,
                 "sparse metadata are given for '{}', which is no sparse "
                 "parameter",
                 left.begin()->first);
  for (const auto& [parameter, one] : checked) {
    dynamic_cast<SparseBucket&>(queue_.bucket_of(parameter)).set_rows(one);
  }
  coming_.sparse_rows = std::move(checked);  // for buckets that are rebuilt
}

void ReducerCore::set_divisor(int ranks) {
  LOCKSTEP_CHECK(ranks >= 1, UsageError, "a divisor of {} is below 1", ranks);
  const Lock lock(mutex_);
  phase_.check_between_steps("set_divisor");
  coming_.divisor = ranks;
}

void ReducerCore::record_arrival_of_all() {
  const Lock lock(mutex_);
  std::vector<size_t> order;
  for (const auto& bucket : queue_.plan().buckets) {
    order.insert(order.end(), bucket.items.begin(), bucket.items.end());
  }
  rebuild_.set_seen(std::move(order));
}

void ReducerCore::remove_autograd_hooks() {
  const Lock lock(mutex_);
  grad_hooks_.reset();
  notices_ = {};
}

// ---- What there is, and what happened.

at::Tensor ReducerCore::local_used_map() {
  const Lock lock(mutex_);
  return used_ ? used_->local() : at::Tensor();
}

bool ReducerCore::is_syncing() {
  const Lock lock(mutex_);
  return no_sync_ == 0;
}

StepReport ReducerCore::report() {
  const Lock lock(mutex_);
  StepReport report;
  report.iterations = iterations_;
  report.backwards = backwards_;
  report.last_step = clock_.last();
  report.backward_times = clock_.ready_times();
  if (unused_ && unused_->last()) report.unused_parameters = *unused_->last();
  if (finite_) report.non_finite = finite_->verdict();
  report.all_steps = clock_.totals();
  report.comm_hook = hook_.name;
  report.has_rebuilt_buckets = rebuild_.has_rebuilt();
  report.is_graph_static = !unused_ || !unused_->have_changed();
  report.error = phase_.error();
  return report;
}

}  // namespace lockstep::detail

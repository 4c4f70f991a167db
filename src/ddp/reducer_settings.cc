// SPDX-License-Identifier: Apache-2.0
// What a program may set and ask.
#include <algorithm>

#include <fmt/format.h>

#include "ddp/messages.h"
#include "ddp/reducer_core.h"
#include "ddp/sparse_bucket.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {

const char* to_text(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kExpecting:
      return "expecting a backward";
    case Phase::kReducing:
      return "in a backward";
    case Phase::kFinalizing:
      return "at the end of a backward";
    case Phase::kFailed:
      return "failed";
  }
  return "?";
}

// ---- Gradients by hand.

void ReducerCore::mark_ready_by_hand(size_t parameter) {
  LOCKSTEP_CHECK(parameter < parameters_.size(), UsageError,
                 "parameter {} of {}", parameter, parameters_.size());
  {
    const Lock lock(mutex_);
    check_usable();
    LOCKSTEP_CHECK(expects_gradients(), UsageError,
                   "mark_ready needs a prepare_for_backward before it; the "
                   "Reducer is {}",
                   to_text(phase_));
  }
  on_gradient(parameter);
}

void ReducerCore::finish_backward() {
  Lock lock(mutex_);
  check_usable();
  LOCKSTEP_CHECK(
      phase_ == Phase::kExpecting || phase_ == Phase::kReducing, UsageError,
      "finish_backward was called while the Reducer is {}", to_text(phase_));
  in_step(lock, [&] {
    if (phase_ == Phase::kExpecting) begin_reducing(lock);
    if (counter_.end_backward()) end_cycle(lock);
  });
}

// ---- How buckets are reduced.

Future<at::Tensor> ReducerCore::run_comm_hook(const GradBucket& bucket) {
  return hook_ ? hook_(bucket) : run_all_reduce_hook(bucket);
}

Future<at::Tensor> ReducerCore::run_all_reduce_hook(const GradBucket& bucket) {
  const int ranks = divisor();
  if (ranks == lane_->size()) {
    return reduce_buffer(*lane_, bucket, ReduceOp::kAverage);
  }
  if (!bucket.buffer().is_sparse()) {
    return reduce_buffer(*lane_, bucket, ReduceOp::premul_sum(1.0 / ranks));
  }
  return reduce_buffer(*lane_, bucket, ReduceOp::kSum)
      .then([ranks](const at::Tensor& sum) {
        sum._values().div_(ranks);
        return sum;
      });
}

void ReducerCore::register_comm_hook(CommHook hook, const std::string& name) {
  const Lock lock(mutex_);
  check_between_steps("register_comm_hook");
  LOCKSTEP_CHECK(hook != nullptr, UsageError, "the hook '{}' is empty", name);
  LOCKSTEP_CHECK(!hook_is_fixed_, UsageError,
                 "a communication hook can be registered once: '{}' is, and "
                 "'{}' came second",
                 hook_name_, name);
  hook_ = std::move(hook);
  hook_name_ = name;
  hook_is_fixed_ = true;
}

std::vector<GradBucket> ReducerCore::grad_buckets(bool zeros) {
  std::vector<GradBucket> views;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (zeros) buckets_[i]->clear();
    views.push_back(buckets_[i]->view(i, buckets_.size()));
  }
  return views;
}

// ---- Settings.

void ReducerCore::add_no_sync(int change) {
  const Lock lock(mutex_);
  no_sync_ += change;
  is_asked_ = true;
}

void ReducerCore::set_gradient_map(std::shared_ptr<GradientMap> map) {
  const Lock lock(mutex_);
  check_between_steps("set_gradient_map");
  for (const auto& bucket : buckets_) bucket->evict_gradients();
  access_.use_map(std::move(map));
  for (const auto& bucket : buckets_) bucket->adopt_gradients();
}

void ReducerCore::install_futures(const std::vector<Future<void>>& futures) {
  const Lock lock(mutex_);
  for (const Future<void>& future : futures) {
    LOCKSTEP_CHECK(future.valid(), UsageError, "one of the futures is empty");
  }
  futures_.insert(futures_.end(), futures.begin(), futures.end());
}

void ReducerCore::set_optimizer_in_backward(bool on) {
  const Lock lock(mutex_);
  check_between_steps("set_optimizer_in_backward");
  optimizer_in_backward_ = on;
}

void ReducerCore::set_static_graph() {
  const Lock lock(mutex_);
  LOCKSTEP_CHECK(iterations_ == 0 && backwards_ == 0 && phase_ == Phase::kIdle,
                 UsageError,
                 "set_static_graph was called after {} iterations; call it "
                 "before the first",
                 iterations_);
  options_.static_graph = true;
  counter_ =
      ReadyCounter(parameters_.size(), true, options_.backwards_per_forward);
  track_use();
}

void ReducerCore::set_sparse_metadata(
    const std::map<std::string, at::Tensor>& rows) {
  const Lock lock(mutex_);
  check_between_steps("set_sparse_metadata");
  std::map<std::string, at::Tensor> left = rows;
  std::map<size_t, at::Tensor> checked;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!items_[i].sparse) continue;
    LOCKSTEP_CHECK(left.count(names_[i]) > 0, UsageError,
                   "there are no sparse metadata for parameter '{}'; give them "
                   "for all sparse parameters or none",
                   names_[i]);
    check_rows(left[names_[i]], parameters_[i], names_[i]);
    checked[i] = left[names_[i]].clone();
    left.erase(names_[i]);
  }
  LOCKSTEP_CHECK(left.empty(), UsageError,
                 "sparse metadata are given for '{}', which is no sparse "
                 "parameter",
                 left.begin()->first);
  for (const auto& [parameter, one] : checked) {
    auto& bucket = *buckets_[places_[parameter].bucket];
    dynamic_cast<SparseBucket&>(bucket).set_rows(one);
  }
  sparse_rows_ = std::move(checked);  // for a rebuild in between
}

void ReducerCore::set_divisor(int ranks) {
  LOCKSTEP_CHECK(ranks >= 1, UsageError, "a divisor of {} is below 1", ranks);
  const Lock lock(mutex_);
  check_between_steps("set_divisor");
  divisor_ = ranks;
}

int ReducerCore::divisor() const {
  return divisor_ == 0 ? lane_->size() : divisor_;
}

void ReducerCore::on_plan_change(
    std::function<void(const BucketPlan&)> notice) {
  const Lock lock(mutex_);
  check_between_steps("on_plan_change");
  plan_notice_ = std::move(notice);
}

void ReducerCore::on_first_launch(std::function<void()> notice) {
  const Lock lock(mutex_);
  check_between_steps("on_first_launch");
  launch_notice_ = std::move(notice);
}

void ReducerCore::on_end(std::function<void()> notice) {
  const Lock lock(mutex_);
  check_between_steps("on_backward_end");
  end_notice_ = std::move(notice);
}

void ReducerCore::record_arrival_of_all() {
  const Lock lock(mutex_);
  if (has_rebuilt_) return;
  seen_order_.clear();
  for (const auto& bucket : plan_.buckets) {
    seen_order_.insert(seen_order_.end(), bucket.items.begin(),
                       bucket.items.end());
  }
}

void ReducerCore::remove_autograd_hooks() {
  const Lock lock(mutex_);
  grad_hooks_.reset();
  launch_notice_ = nullptr;
  end_notice_ = nullptr;
}

// ---- What there is.

at::Tensor ReducerCore::local_used_map() {
  const Lock lock(mutex_);
  return used_ ? used_->local() : at::Tensor();
}

int64_t ReducerCore::iterations() {
  const Lock lock(mutex_);
  return iterations_;
}

int64_t ReducerCore::backwards() {
  const Lock lock(mutex_);
  return backwards_;
}

std::vector<std::chrono::nanoseconds> ReducerCore::backward_times() {
  const Lock lock(mutex_);
  return last_times_;
}

bool ReducerCore::has_rebuilt_buckets() {
  const Lock lock(mutex_);
  return has_rebuilt_;
}

StepTimes ReducerCore::last_step() {
  const Lock lock(mutex_);
  return clock_.last();
}

StepTotals ReducerCore::all_steps() {
  const Lock lock(mutex_);
  return clock_.totals();
}

bool ReducerCore::is_syncing() {
  const Lock lock(mutex_);
  return no_sync_ == 0;
}

std::vector<size_t> ReducerCore::unused_parameters() {
  const Lock lock(mutex_);
  if (unused_ && unused_->last()) return *unused_->last();
  return {};
}

bool ReducerCore::is_graph_static() {
  const Lock lock(mutex_);
  return !unused_ || !unused_->have_changed();
}

std::exception_ptr ReducerCore::error() {
  const Lock lock(mutex_);
  return error_;
}

}  // namespace lockstep::detail

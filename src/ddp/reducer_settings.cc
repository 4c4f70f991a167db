// SPDX-License-Identifier: Apache-2.0
// What a program may set and ask, and how a Reducer fails.
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

// ---- Failing.

void ReducerCore::check_usable() const {
  if (phase_ != Phase::kFailed) return;
  throw AbortedError(
      fmt::format("the Reducer failed in an earlier step; reset_state() it, or "
                  "make a new one on the same parameters. The failure was: {}",
                  describe(error_)),
      error_);
}

void ReducerCore::check_between_steps(const char* call) const {
  check_usable();
  LOCKSTEP_CHECK(phase_ == Phase::kIdle || phase_ == Phase::kExpecting,
                 UsageError, "{} was called while the Reducer is {}", call,
                 to_text(phase_));
}

// Ends the step: written to the log, told to the other ranks, thrown here.
void ReducerCore::fail(std::exception_ptr error, Lock& lock) {
  if (!lock.owns_lock()) lock.lock();
  launching_ = false;
  enter(Phase::kFailed);
  error_ = error;
  lock.unlock();
  const std::string text = describe(error);
  log_error(fmt::format("rank {}: the reduction of gradients failed: {}",
                        lane_->rank(), text));
  if (!lane_->failure()) lane_->abort(text);
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    ErrorContext context;
    context.rank = lane_->rank();
    context.operation = "backward";
    context.group = lane_->name();
    rethrow_with_context(known, context);
  }
}

void ReducerCore::check_finalized() {
  const Lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  LOCKSTEP_CHECK(phase_ != Phase::kReducing, UsageError, "{}",
                 unfinished_text(lane_->rank(), missing(), names_, options_));
}

std::vector<size_t> ReducerCore::missing() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!counter_.is_ready(i)) indices.push_back(i);
  }
  return indices;
}

// ---- Unused parameters.

std::vector<size_t> ReducerCore::find_unused() {
  const EngineTask task = EngineTask::current();
  std::vector<size_t> unused;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!task.passes(grad_hooks_->accumulator(i))) unused.push_back(i);
  }
  check_hooks(unused);
  if (unused.empty() && !std::exchange(warned_of_no_unused_, true)) {
    log_warn(fmt::format(
        "rank {}: find_unused_parameters is on, and all parameters are used; "
        "the search costs time in every step, so turn it off if that is "
        "always so (said once)",
        lane_->rank()));
  }
  note_unused(unused);
  return unused;
}

void ReducerCore::note_unused(std::vector<size_t> unused) {
  if (counter_.is_static()) {
    if (unused.empty()) return;
    log_info(
        fmt::format("rank {}: parameters without a gradient in this "
                    "static graph: {}",
                    lane_->rank(), parameters_text(unused, names_)));
  }
  if (unused_ && *unused_ != unused && !std::exchange(unused_changed_, true)) {
    log_info(
        fmt::format("rank {}: the set of unused parameters changes: "
                    "can_set_static_graph=false",
                    lane_->rank()));
  }
  unused_ = std::move(unused);
}

void ReducerCore::check_hooks(const std::vector<size_t>& parameters) const {
  for (const size_t i : parameters) {
    LOCKSTEP_CHECK(grad_hooks_->is_on(i, parameters_[i]), UsageError,
                   "parameter {} ('{}') was converted or replaced after the "
                   "Reducer was made (module->to(dtype)?), so its gradients do "
                   "not come here; make a new Reducer",
                   i, names_[i]);
  }
}

// ---- Gradients by hand.

void ReducerCore::mark_ready_by_hand(size_t parameter) {
  LOCKSTEP_CHECK(parameter < parameters_.size(), UsageError,
                 "parameter {} of {}", parameter, parameters_.size());
  {
    const Lock lock(mutex_);
    check_usable();
    LOCKSTEP_CHECK(phase_ == Phase::kExpecting || phase_ == Phase::kReducing,
                   UsageError,
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
  const int ranks = divisor_ == 0 ? lane_->size() : divisor_;
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
  LOCKSTEP_CHECK(!hook_, UsageError,
                 "a communication hook can be registered once: '{}' is, and "
                 "'{}' came second",
                 hook_name_, name);
  hook_ = std::move(hook);
  hook_name_ = name;
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
}

void ReducerCore::set_gradient_map(std::shared_ptr<GradientMap> map) {
  const Lock lock(mutex_);
  check_between_steps("set_gradient_map");
  access_.use_map(std::move(map));
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
  if (!used_) used_.emplace(parameters_.size());
}

void ReducerCore::set_sparse_metadata(
    const std::map<std::string, at::Tensor>& rows) {
  const Lock lock(mutex_);
  check_between_steps("set_sparse_metadata");
  std::map<std::string, at::Tensor> left = rows;
  for (const auto& bucket : buckets_) {
    auto* sparse = dynamic_cast<SparseBucket*>(bucket.get());
    if (sparse == nullptr) continue;
    const std::string& name = sparse->members()[0].name;
    LOCKSTEP_CHECK(left.count(name) > 0, UsageError,
                   "there are no sparse metadata for parameter '{}'; give them "
                   "for all sparse parameters or none",
                   name);
    sparse->set_rows(left[name]);
    left.erase(name);
  }
  LOCKSTEP_CHECK(left.empty(), UsageError,
                 "sparse metadata are given for '{}', which is no sparse "
                 "parameter",
                 left.begin()->first);
}

void ReducerCore::set_divisor(int ranks) {
  LOCKSTEP_CHECK(ranks >= 1, UsageError, "a divisor of {} is below 1", ranks);
  const Lock lock(mutex_);
  check_between_steps("set_divisor");
  divisor_ = ranks;
}

void ReducerCore::on_plan_change(
    std::function<void(const BucketPlan&)> notice) {
  const Lock lock(mutex_);
  check_between_steps("on_plan_change");
  plan_notice_ = std::move(notice);
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
  std::vector<std::chrono::nanoseconds> times;
  for (const Clock::time_point& ready : ready_times_) {
    times.push_back(ready - prepared_at_);
  }
  return times;
}

bool ReducerCore::is_graph_static() {
  const Lock lock(mutex_);
  return !unused_changed_;
}

std::exception_ptr ReducerCore::error() {
  const Lock lock(mutex_);
  return error_;
}

}  // namespace lockstep::detail

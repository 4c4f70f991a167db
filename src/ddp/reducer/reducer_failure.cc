// SPDX-License-Identifier: Apache-2.0
// How a Reducer fails, and what it says afterwards.
#include <algorithm>

#include <fmt/format.h>

#include "ddp/reducer/messages.h"
#include "ddp/reducer/reducer_core.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {
namespace {

ErrorKind kind_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.kind();
  } catch (...) {
    return ErrorKind::kInternal;
  }
}

}  // namespace

void ReducerCore::check_usable() const {
  if (phase_ != Phase::kFailed) return;
  throw AbortedError(
      "the Reducer failed in an earlier step; reset_state() it, or make a new "
      "one on the same parameters",
      error_);
}

// Backward passes outputs whose gradients are reduced already. Where nothing
// else is expected, what it adds would stay on this rank.
void ReducerCore::refuse_to_go_again() const {
  if (phase_ != Phase::kIdle || no_sync_ > 0) return;
  const std::string text = again_text(group()->rank());
  log_error(text);
  throw UsageError(text);
}

void ReducerCore::check_map_has(size_t parameter) const {
  bool has = false;
  access_.with_grad(parameters_.tensors[parameter],
                    [&](const at::Tensor& grad) { has = grad.defined(); });
  LOCKSTEP_CHECK(has, UsageError,
                 "gradients are read from a GradientMap, and backward() has "
                 "put that of parameter {} ('{}') into .grad; fill the map and "
                 "call mark_ready(), or set_gradient_map(nullptr)",
                 parameter, parameters_.names[parameter]);
}

void ReducerCore::check_between_steps(const char* call) const {
  check_usable();
  LOCKSTEP_CHECK(phase_ == Phase::kIdle || phase_ == Phase::kExpecting,
                 UsageError, "{} was called while the Reducer is {}", call,
                 to_text(phase_));
}

// Ends the step: written to the log, told to the other ranks, thrown here. Of
// several lanes that have failed, the first one's error is the cause.
void ReducerCore::fail(std::exception_ptr error, Lock& lock) {
  const auto cause = lanes_.failure();
  if (cause && kind_of(error) == ErrorKind::kAborted) error = cause;
  if (!lock.owns_lock()) lock.lock();
  queue_.stop_launching();
  enter(Phase::kFailed);
  error_ = error;
  lock.unlock();
  const std::string text = describe(error);
  log_error(fmt::format("the reduction of gradients failed: {}", text));
  lanes_.abort(text);
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    ErrorContext context;
    context.rank = group()->rank();
    context.operation = "reduction of gradients";
    context.group = group()->name();
    rethrow_with_context(known, context);
  }
}

void ReducerCore::check_finalized() {
  const Lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  LOCKSTEP_CHECK(phase_ != Phase::kReducing, UsageError, "{}", unfinished());
}

void ReducerCore::check_parameters() {
  const Lock lock(mutex_);
  if (!grad_hooks_) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check_hook_is_on(*grad_hooks_, parameters_.tensors, i, parameters_.names);
  }
}

// A gradient came, and nobody has ever told us of a forward.
void ReducerCore::warn_of_bypass() {
  if (is_asked_ || phase_ != Phase::kIdle || group()->size() == 1) return;
  is_asked_ = true;  // so this is said once
  log_warn(fmt::format(
      "rank {}: backward() reached parameters before any forward went through "
      "DistributedDataParallel (or prepare_for_backward of a Reducer): these "
      "gradients are not averaged over the ranks. To train, call the wrapper, "
      "not the module (said once)",
      group()->rank()));
}

std::string ReducerCore::unfinished() const {
  const std::vector<size_t> without = missing();
  const auto frozen =
      std::count_if(without.begin(), without.end(), [&](size_t parameter) {
        return !parameters_.tensors[parameter].requires_grad();
      });
  return unfinished_text(group()->rank(), without, static_cast<size_t>(frozen),
                         parameters_.names, options_);
}

std::vector<size_t> ReducerCore::missing() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!counter_.is_ready(i)) indices.push_back(i);
  }
  return indices;
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// How a Reducer fails, and the checks that throw its errors.
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

// Backward passes outputs whose gradients are reduced already. When no other
// backward is expected, the gradients that it adds would stay on this rank.
void ReducerCore::refuse_to_go_again() const {
  if (!phase_.is(Phase::kIdle) || no_sync_ > 0) return;
  const std::string text = again_text(group()->rank());
  log_error(text);
  throw UsageError(text);
}

// Ends the step: writes the error to the log, tells the other ranks, and throws
// it. When several lanes have failed, the error of the first is the cause.
void ReducerCore::fail(std::exception_ptr error, Lock& lock) {
  const auto cause = lanes_.failure();
  if (cause && kind_of(error) == ErrorKind::kAborted) error = cause;
  if (!lock.owns_lock()) lock.lock();
  queue_.stop_launching();
  phase_.fail(error);
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
  if (phase_.error()) std::rethrow_exception(phase_.error());
  LOCKSTEP_CHECK(!phase_.is(Phase::kReducing), UsageError, "{}", unfinished());
}

void ReducerCore::check_parameters() {
  const Lock lock(mutex_);
  if (!grad_hooks_) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check_hook_is_on(*grad_hooks_, parameters_.tensors, i, parameters_.names);
  }
}

// A gradient came, and the program has never prepared a backward.
void ReducerCore::warn_of_bypass() {
  if (was_prepared_ || warned_of_bypass_ || !phase_.is(Phase::kIdle) ||
      group()->size() == 1) {
    return;
  }
  warned_of_bypass_ = true;
  log_warn(fmt::format(
      "rank {}: backward() reached parameters before any forward went through "
      "DistributedDataParallel (or prepare_for_backward of a Reducer): these "
      "gradients are not averaged over the ranks. To train, call the wrapper, "
      "not the module (said once)",
      group()->rank()));
}

std::string ReducerCore::unfinished() const {
  const std::vector<size_t> missing = counter_.missing();
  const auto frozen =
      std::count_if(missing.begin(), missing.end(), [&](size_t parameter) {
        return !parameters_.tensors[parameter].requires_grad();
      });
  return unfinished_text(group()->rank(), missing, static_cast<size_t>(frozen),
                         parameters_.names, options_);
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/step_phase.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

const char* StepPhase::text() const {
  switch (phase_) {
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

void StepPhase::enter(Phase next) {
  const bool legal =
      (phase_ == Phase::kIdle && next == Phase::kExpecting) ||
      (phase_ == Phase::kExpecting && next == Phase::kReducing) ||
      (phase_ == Phase::kReducing && next == Phase::kFinalizing) ||
      next == Phase::kIdle;
  LOCKSTEP_ASSERT(legal);
  phase_ = next;
}

void StepPhase::fail(std::exception_ptr error) {
  phase_ = Phase::kFailed;
  error_ = std::move(error);
}

void StepPhase::reset() {
  phase_ = Phase::kIdle;
  error_ = nullptr;
}

void StepPhase::check_usable() const {
  if (phase_ != Phase::kFailed) return;
  throw AbortedError(
      "the Reducer failed in an earlier step; reset_state() it, or make a new "
      "one on the same parameters",
      error_);
}

void StepPhase::check_between_steps(const char* call) const {
  check_usable();
  LOCKSTEP_CHECK(is_between_steps(), UsageError,
                 "{} was called while the Reducer is {}", call, text());
}

}  // namespace lockstep::detail

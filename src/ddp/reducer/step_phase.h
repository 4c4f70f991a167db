// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace lockstep::detail {

// Where a Reducer is in a step.
enum class Phase {
  kIdle,        // gradients stay on this rank
  kExpecting,   // a forward was prepared
  kReducing,    // backward runs
  kFinalizing,  // backward has ended, and waits for the results of buckets
  kFailed,      // until reset()
};

// The phase of a step, the error that ended it, and the calls that a phase
// refuses.
//
//   phase.enter(Phase::kExpecting);
//   phase.check_between_steps("set_divisor");
//   phase.fail(error);  // every later check_usable() throws, until reset()
//
// Threads: guarded by the Reducer.
class StepPhase {
 public:
  bool is(Phase phase) const { return phase_ == phase; }
  // No backward runs and no step has failed: buckets and settings may change.
  bool is_between_steps() const {
    return is(Phase::kIdle) || is(Phase::kExpecting);
  }
  // Buckets may have been launched whose results are not there yet.
  bool is_under_way() const {
    return is(Phase::kReducing) || is(Phase::kFinalizing);
  }
  // For errors: "the Reducer is {}".
  const char* text() const;

  // Every change of phase but failing: to the next phase, or to kIdle.
  void enter(Phase next);
  void fail(std::exception_ptr error);
  void reset();

  // What ended the step, or null.
  const std::exception_ptr& error() const { return error_; }

  // Errors: AbortedError when a step has failed, with the cause.
  void check_usable() const;
  // Errors: the same, and UsageError while a backward runs; `call` is the name
  // of the function that was called.
  void check_between_steps(const char* call) const;

 private:
  Phase phase_ = Phase::kIdle;
  std::exception_ptr error_;
};

}  // namespace lockstep::detail

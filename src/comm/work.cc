// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/work.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/caller_state.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

std::string name_of(const Work& work) {
  if (work.sequence_number() < 0) return to_text(work.op());
  return fmt::format("{} #{}", to_text(work.op()), work.sequence_number());
}

}  // namespace

Work::Work(OpKind kind, int64_t sequence)
    : kind_(kind),
      sequence_(sequence),
      promise_(std::in_place),
      future_(promise_->future()) {}

Work::Work(OpKind kind, int64_t sequence, Deadline::Duration duration)
    : kind_(kind),
      sequence_(sequence),
      duration_ns_(std::chrono::nanoseconds(duration).count()),
      future_(ready_future()) {}

// Always, even when it is completed already: whether it is, is a matter of
// luck there, and a program should not work by luck.
void Work::check_thread() const {
  if (NoWaitScope::is_active()) NoWaitScope::check(name_of(*this));
}

void Work::wait() const {
  check_thread();
  LOCKSTEP_TRACE_SCOPE("wait", "comm");
  // The operation has a deadline of its own, and ends.
  future_.get(Deadline::at(Deadline::Clock::time_point::max()));
}

void Work::wait(Deadline::Duration timeout) const {
  check_thread();
  LOCKSTEP_TRACE_SCOPE("wait", "comm");
  LOCKSTEP_CHECK(future_.wait(Deadline::in(timeout)), TimeoutError,
                 "{} is still going on after waiting {}; it may be waited for "
                 "again",
                 name_of(*this), to_text(timeout));
  if (auto error = exception()) std::rethrow_exception(error);
}

int Work::source_rank() const {
  LOCKSTEP_CHECK(kind_ == OpKind::kRecv, UsageError,
                 "source_rank() is for receives; this is {}", name_of(*this));
  LOCKSTEP_CHECK(is_success(), UsageError,
                 "source_rank(): the receive has not succeeded (yet)");
  return source_;
}

Deadline::Duration Work::duration() const {
  return std::chrono::nanoseconds(duration_ns_.load());
}

void Work::complete(Deadline::Duration duration) {
  duration_ns_ = std::chrono::nanoseconds(duration).count();
  promise_->set_value();
}

void Work::fail(std::exception_ptr error, Deadline::Duration duration) {
  duration_ns_ = std::chrono::nanoseconds(duration).count();
  promise_->set_error(std::move(error));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/future_state.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/caller_state.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {
namespace {

void run(const std::function<void()>& callback) {
  try {
    callback();
  } catch (...) {
    log_error(fmt::format("a continuation threw, and nobody can receive it: {}",
                          describe(std::current_exception())));
  }
}

}  // namespace

bool FutureState::is_ready() const { return phase_ >= Phase::kReady; }

std::exception_ptr FutureState::error() const {
  return is_ready() ? error_ : nullptr;
}

bool FutureState::wait(Deadline deadline) const {
  if (phase_ == Phase::kReleased) return true;
  // The result is there, and continuations run: who may not wait does not wait
  // for their end.
  const bool may_not_wait = NoWaitScope::is_active();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto may_pass = [&] {
    return phase_ == Phase::kReleased ||
           (phase_ == Phase::kReady &&
            (may_not_wait || publisher_ == std::this_thread::get_id()));
  };
  if (may_pass()) return true;
  if (may_not_wait) NoWaitScope::check("a future");
  return released_.wait_until(lock, deadline.time(), may_pass);
}

void FutureState::wait_or_throw(Deadline deadline) const {
  if (phase_ != Phase::kReleased) {
    const auto left = deadline.remaining();
    if (!wait(deadline)) {
      throw TimeoutError(fmt::format(
          "no result after waiting {}; it may still come", to_text(left)));
    }
  }
  if (auto failure = error()) std::rethrow_exception(failure);
}

void FutureState::on_ready(std::function<void()> callback) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (phase_ < Phase::kReady) {
      callbacks_.push_back(with_caller_state(std::move(callback)));
      return;
    }
  }
  run(callback);
}

void FutureState::claim() {
  Phase open = Phase::kOpen;
  LOCKSTEP_CHECK(phase_.compare_exchange_strong(open, Phase::kClaimed),
                 UsageError,
                 "this promise was completed before; a result is set once");
}

void FutureState::publish(std::exception_ptr error) {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    LOCKSTEP_ASSERT(phase_ == Phase::kClaimed);
    error_ = std::move(error);
    publisher_ = std::this_thread::get_id();
    callbacks.swap(callbacks_);
    phase_ = callbacks.empty() ? Phase::kReleased : Phase::kReady;
  }
  if (!callbacks.empty()) {
    for (const auto& callback : callbacks) run(callback);
    std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kReleased;
  }
  released_.notify_all();
}

void FutureState::abandon() {
  Phase open = Phase::kOpen;
  if (!phase_.compare_exchange_strong(open, Phase::kClaimed)) return;
  publish(std::make_exception_ptr(
      AbortedError("the operation was dropped before it had a result")));
}

}  // namespace lockstep::detail

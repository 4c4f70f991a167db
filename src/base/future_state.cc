// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/future_state.h"

#include <utility>

#include <fmt/format.h>

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

bool FutureState::is_ready() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return phase_ >= Phase::kReady;
}

std::exception_ptr FutureState::error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

bool FutureState::wait(Deadline deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return released_.wait_until(lock, deadline.time(), [&] {
    return phase_ == Phase::kReleased ||
           (phase_ == Phase::kReady &&
            publisher_ == std::this_thread::get_id());
  });
}

void FutureState::wait_or_throw(Deadline deadline) const {
  const auto left = deadline.remaining();
  if (!wait(deadline)) {
    throw TimeoutError(fmt::format(
        "no result after waiting {}; it may still come", to_text(left)));
  }
  if (auto failure = error()) std::rethrow_exception(failure);
}

void FutureState::on_ready(std::function<void()> callback) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (phase_ < Phase::kReady) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  run(callback);
}

void FutureState::claim() {
  std::lock_guard<std::mutex> lock(mutex_);
  LOCKSTEP_CHECK(phase_ == Phase::kOpen, UsageError,
                 "this promise was completed before; a result is set once");
  phase_ = Phase::kClaimed;
}

void FutureState::publish(std::exception_ptr error) {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    LOCKSTEP_ASSERT(phase_ == Phase::kClaimed);
    phase_ = Phase::kReady;
    error_ = std::move(error);
    publisher_ = std::this_thread::get_id();
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) run(callback);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kReleased;
  }
  released_.notify_all();
}

void FutureState::abandon() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (phase_ != Phase::kOpen) return;
    phase_ = Phase::kClaimed;
  }
  publish(std::make_exception_ptr(
      AbortedError("the operation was dropped before it had a result")));
}

}  // namespace lockstep::detail

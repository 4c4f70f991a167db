// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

// How long one operation may wait for its peers, and whom to tell meanwhile.
//
// Whoever waits sleeps until wake_at() at the latest, then calls
// still_waiting(): after a while of silence that says, once per interval, which
// ranks are late.
//
//   while (!arrived()) {
//     if (patience.deadline().passed()) throw TimeoutError(...);
//     sleep_until(patience.wake_at());
//     patience.still_waiting(missing_ranks());
//   }
//
// Threads: used by the one thread that runs the operation.
class Patience {
 public:
  // Hears of ranks that are late.
  class Listener {
   public:
    virtual void on_late(const std::vector<int>& missing,
                         const Patience& patience) = 0;

   protected:
    ~Listener() = default;
  };

  using Duration = Deadline::Duration;

  // When the time begins. A small operation between ranks that are all there
  // never asks for it, and looking at the clock would be a good part of it.
  enum class Begin { kNow, kWhenAsked };

  explicit Patience(Duration timeout, Duration notice_after = Duration::max(),
                    Listener* listener = nullptr, Begin begin = Begin::kNow)
      : timeout_(timeout), notice_after_(notice_after), listener_(listener) {
    if (begin == Begin::kNow) start_clock();
  }

  Deadline deadline() const {
    start_clock();
    return deadline_;
  }
  Deadline wake_at() const {
    start_clock();
    return earlier(deadline_, notice_);
  }
  Duration timeout() const { return timeout_; }
  // Zero when nobody has asked for the time.
  Duration waited() const {
    return has_begun_ ? Deadline::Clock::now() - start_ : Duration::zero();
  }

  void still_waiting(const std::vector<int>& missing) {
    start_clock();
    if (listener_ == nullptr || !notice_.passed()) return;
    notice_ = Deadline::in(notice_after_);
    listener_->on_late(missing, *this);
  }

 private:
  void start_clock() const {
    if (has_begun_) return;
    has_begun_ = true;
    start_ = Deadline::Clock::now();
    deadline_ = after(timeout_);
    notice_ = after(notice_after_);
  }

  // Like Deadline::in, without another look at the clock.
  Deadline after(Duration duration) const {
    using Clock = Deadline::Clock;
    return duration > Clock::time_point::max() - start_
               ? Deadline::at(Clock::time_point::max())
               : Deadline::at(start_ + duration);
  }

  // Set by the first who asks.
  mutable bool has_begun_ = false;
  mutable Deadline::Clock::time_point start_;
  mutable Deadline deadline_ = Deadline::at({});
  mutable Deadline notice_ = Deadline::at({});

  Duration timeout_;
  Duration notice_after_;
  Listener* listener_;
};

}  // namespace lockstep

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

  explicit Patience(Duration timeout, Duration notice_after = Duration::max(),
                    Listener* listener = nullptr)
      : start_(Deadline::Clock::now()),
        deadline_(after(timeout)),
        notice_(after(notice_after)),
        timeout_(timeout),
        notice_after_(notice_after),
        listener_(listener) {}

  Deadline deadline() const { return deadline_; }
  Deadline wake_at() const { return earlier(deadline_, notice_); }
  Duration timeout() const { return timeout_; }
  Deadline::Clock::time_point start() const { return start_; }
  Duration waited() const { return Deadline::Clock::now() - start_; }

  void still_waiting(const std::vector<int>& missing) {
    if (listener_ == nullptr || !notice_.passed()) return;
    notice_ = Deadline::in(notice_after_);
    listener_->on_late(missing, *this);
  }

 private:
  // Like Deadline::in, without another look at the clock.
  Deadline after(Duration duration) const {
    using Clock = Deadline::Clock;
    return duration > Clock::time_point::max() - start_
               ? Deadline::at(Clock::time_point::max())
               : Deadline::at(start_ + duration);
  }

  Deadline::Clock::time_point start_;
  Deadline deadline_;
  Deadline notice_;
  Duration timeout_;
  Duration notice_after_;
  Listener* listener_;
};

}  // namespace lockstep

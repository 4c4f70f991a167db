// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace lockstep {

// A Deadline is the moment at which a wait gives up.
//
// It is absolute, so it passes through many calls and many wake-ups without
// growing:
//
//   auto deadline = Deadline::in(30s);
//   socket.connect(address, deadline);
//   socket.send_all(hello, deadline);     // both together: 30 s
//
// There is no "never": a wait without an end is a hang without a name.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = Clock::duration;

  // From now on; a duration too long to add ends at the clock's far end.
  static Deadline in(Duration duration);
  static Deadline at(Clock::time_point time) { return Deadline(time); }

  Clock::time_point time() const { return time_; }
  bool passed() const { return Clock::now() >= time_; }

  // Zero once it has passed.
  Duration remaining() const;

  // The remaining time for poll(2) and epoll_wait(2): milliseconds, rounded
  // up, so that a wait never ends early and then spins.
  int poll_timeout() const;

  friend Deadline earlier(Deadline a, Deadline b) {
    return a.time_ < b.time_ ? a : b;
  }

 private:
  explicit Deadline(Clock::time_point time) : time_(time) {}
  Clock::time_point time_;
};

// A duration as people write it: "250 ms", "1.5 s", "10 min".
std::string to_text(Deadline::Duration duration);

}  // namespace lockstep

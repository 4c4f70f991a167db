// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep {

// Waits for many descriptors at once (epoll), and for a wake-up from another
// thread. Each descriptor comes with a token of the caller's choice, which its
// events carry; tokens that are never reused make late events harmless.
//
// Threads: wait() from one thread; the others from any, also while it waits.
// Errors:  SystemError.
class Poller {
 public:
  enum Interest : uint32_t { kRead = 1, kWrite = 2 };

  struct Event {
    uint64_t token;
    bool readable;  // or closed, or failed: reading tells which
    bool writable;
  };

  Poller();

  void add(int fd, uint32_t interest, uint64_t token);
  void change(int fd, uint32_t interest, uint64_t token);
  void remove(int fd);

  // Waits for events until the deadline; an empty list then, or after wake().
  // The list is valid until the next call.
  const std::vector<Event>& wait(Deadline deadline);

  void wake() noexcept { wake_.signal(); }

 private:
  void control(int operation, int fd, uint32_t interest, uint64_t token);

  Fd epoll_;
  EventFd wake_;
  std::vector<Event> events_;
};

}  // namespace lockstep

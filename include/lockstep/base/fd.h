// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace lockstep {

// Owns a file descriptor and closes it. Moves, does not copy.
//
// Every descriptor lockstep opens is close-on-exec, so that none leaks into a
// program that a rank starts.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Marks a descriptor non-blocking and close-on-exec. Errors: SystemError.
void set_nonblocking(int fd);

// A counter to wake a poll(2) in another thread: signal() makes it readable,
// drain() makes it quiet again. Errors: SystemError on construction.
class EventFd {
 public:
  EventFd();
  int fd() const { return fd_.get(); }
  void signal() noexcept;
  void drain() noexcept;

 private:
  Fd fd_;
};

}  // namespace lockstep

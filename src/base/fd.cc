// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "lockstep/base/error.h"

namespace lockstep {

void Fd::reset(int fd) {
  // On Linux the descriptor is gone even when close() reports EINTR.
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
      ::fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    throw SystemError("cannot make a descriptor non-blocking", errno);
  }
}

EventFd::EventFd() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!fd_) throw SystemError("cannot create an event descriptor", errno);
}

void EventFd::signal() noexcept {
  const uint64_t one = 1;
  // The only other outcome is a counter at its end: readable already.
  while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void EventFd::drain() noexcept {
  uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep

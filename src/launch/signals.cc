// SPDX-License-Identifier: Apache-2.0
#include "launch/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep::detail {

Signals::Signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) ::sigaddset(&wanted, number);  // nohup
  }
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  fd_.reset(::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_) throw SystemError("cannot wait for signals", errno);
  // A reader of ours that goes away is an error of write(2), not our end.
  std::signal(SIGPIPE, SIG_IGN);
}

Signals::~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> Signals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/poller.h"

#include <sys/epoll.h>

#include <cerrno>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr uint64_t kWakeToken = UINT64_MAX;
constexpr int kMostEvents = 256;

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw SystemError("cannot create an epoll descriptor", errno);
  add(wake_.fd(), kRead, kWakeToken);
}

void Poller::add(int fd, uint32_t interest, uint64_t token) {
  control(EPOLL_CTL_ADD, fd, interest, token);
}

void Poller::change(int fd, uint32_t interest, uint64_t token) {
  control(EPOLL_CTL_MOD, fd, interest, token);
}

void Poller::remove(int fd) { control(EPOLL_CTL_DEL, fd, 0, 0); }

void Poller::control(int operation, int fd, uint32_t interest, uint64_t token) {
  epoll_event event{};
  if (interest & kRead) event.events |= EPOLLIN;
  if (interest & kWrite) event.events |= EPOLLOUT;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    throw SystemError("epoll_ctl failed", errno);
  }
}

const std::vector<Poller::Event>& Poller::wait(Deadline deadline) {
  epoll_event ready[kMostEvents];
  int count = 0;
  do {
    count =
        ::epoll_wait(epoll_.get(), ready, kMostEvents, deadline.poll_timeout());
  } while (count < 0 && errno == EINTR && !deadline.passed());
  if (count < 0 && errno != EINTR) throw SystemError("epoll failed", errno);
  events_.clear();
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.u64 == kWakeToken) {
      wake_.drain();
      continue;
    }
    const uint32_t flags = ready[i].events;
    events_.push_back({ready[i].data.u64,
                       (flags & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0,
                       (flags & (EPOLLOUT | EPOLLERR)) != 0});
  }
  return events_;
}

}  // namespace lockstep

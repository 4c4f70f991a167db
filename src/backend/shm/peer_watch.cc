// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

PeerWatch::~PeerWatch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.signal();
  thread_.join();
}

PeerWatch::Subscription::Subscription(PeerWatch& watch, Fd process,
                                      std::function<void()> on_end)
    : watch_(watch), process_(std::move(process)), on_end_(std::move(on_end)) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.subscriptions_.push_back(this);
}

PeerWatch::Subscription::~Subscription() {
  {
    const std::lock_guard lock(watch_.mutex_);
    watch_.subscriptions_.remove(this);
  }
  watch_.changed_.signal();  // it still polls our descriptor
}

std::unique_ptr<PeerWatch::Subscription> PeerWatch::watch(
    pid_t pid, std::function<void()> on_end) {
  Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) {
    throw SystemError(
        fmt::format("cannot watch process {}{}", pid,
                    errno == ENOSYS ? "; this needs Linux 5.3 or newer" : ""),
        errno);
  }
  auto subscription = std::make_unique<Subscription>(*this, std::move(process),
                                                     std::move(on_end));
  {
    const std::lock_guard lock(mutex_);
    if (!started_) thread_ = Thread("watch", [this] { serve(); });
    started_ = true;
  }
  changed_.signal();
  return subscription;
}

void PeerWatch::serve() {
  std::vector<pollfd> polled;
  while (true) {
    polled.clear();
    polled.push_back({changed_.fd(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      for (const auto* subscription : subscriptions_) {
        if (subscription->ended_) continue;
        polled.push_back({subscription->process_.get(), POLLIN, 0});
      }
    }
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    changed_.drain();
    const std::lock_guard lock(mutex_);
    for (auto* subscription : subscriptions_) {
      pollfd one{subscription->process_.get(), POLLIN, 0};
      if (subscription->ended_ || ::poll(&one, 1, 0) != 1) continue;
      subscription->ended_ = true;
      subscription->on_end_();
    }
  }
}

}  // namespace lockstep::detail

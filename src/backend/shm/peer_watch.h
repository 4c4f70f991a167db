// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "lockstep/base/fd.h"
#include "lockstep/base/thread.h"

namespace lockstep::detail {

// Tells at once when another process ends, however it ends. One thread sleeps
// for all that are watched; it starts with the first.
//
// Threads: any. `on_end` is called from the watching thread, once.
class PeerWatch {
 public:
  PeerWatch() = default;
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // One process under watch. When the destructor returns, `on_end` does not
  // run and will not; do not destroy it from there.
  class Subscription {
   public:
    Subscription(PeerWatch& watch, Fd process, std::function<void()> on_end);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    friend class PeerWatch;
    PeerWatch& watch_;
    const Fd process_;
    const std::function<void()> on_end_;
    bool ended_ = false;
  };

  // Errors: SystemError; with ESRCH when there is no such process any more.
  std::unique_ptr<Subscription> watch(pid_t pid, std::function<void()> on_end);

 private:
  void serve();

  EventFd changed_;
  std::mutex mutex_;  // held while on_end runs, so that removal waits for it
  std::list<Subscription*> subscriptions_ LOCKSTEP_GUARDED_BY(mutex_);
  bool started_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool closing_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace lockstep::detail

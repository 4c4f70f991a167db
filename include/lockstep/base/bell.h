// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "lockstep/base/deadline.h"
#include "lockstep/base/thread.h"

namespace lockstep {

// A Bell says "something may have changed, look again". A ring is never lost:
// whoever waits says how many it has heard, and returns at once when there
// were more.
//
//   uint64_t heard = bell.rings();
//   while (!look()) heard = bell.wait(heard, deadline);
//
// Threads: every method from any thread, any number of waiters.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      ++rings_;
    }
    rung_.notify_all();
  }

  uint64_t rings() const {
    const std::lock_guard lock(mutex_);
    return rings_;
  }

  // Waits for a ring beyond `heard`, until the deadline; returns how many
  // there have been.
  uint64_t wait(uint64_t heard, Deadline deadline) const {
    std::unique_lock lock(mutex_);
    rung_.wait_until(lock, deadline.time(), [&] { return rings_ != heard; });
    return rings_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable rung_;
  uint64_t rings_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep

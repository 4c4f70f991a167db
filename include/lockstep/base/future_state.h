// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/thread.h"

namespace lockstep::detail {

// The part of a Future that does not depend on its type: the phase, the
// error, the continuations, the waiters. See future.h.
//
// Completion goes open -> claimed -> ready -> released: whoever claims may
// write the value; ready makes it visible and runs the continuations; released
// wakes the waiters. The phase is changed under the mutex and read without:
// once it is ready, value and error do not change any more.
class FutureState {
 public:
  bool is_ready() const;
  std::exception_ptr error() const;
  bool wait(Deadline deadline) const;
  void wait_or_throw(Deadline deadline) const;  // throws the error, if any

  // Runs `callback` when ready, at once if it is. A callback that throws is
  // logged: it has nobody to tell.
  void on_ready(std::function<void()> callback);

  void claim();  // UsageError when it was claimed before
  void publish(std::exception_ptr error);
  void abandon();  // fails it, unless it was claimed

 private:
  enum class Phase { kOpen, kClaimed, kReady, kReleased };

  mutable std::mutex mutex_;
  mutable std::condition_variable released_;
  std::atomic<Phase> phase_{Phase::kOpen};
  std::exception_ptr error_;  // written before the phase becomes ready
  std::vector<std::function<void()>> callbacks_ LOCKSTEP_GUARDED_BY(mutex_);
  // Who runs the continuations: it must not wait for its own release.
  std::thread::id publisher_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail

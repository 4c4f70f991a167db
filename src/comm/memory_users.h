// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "lockstep/base/deadline.h"
#include "lockstep/base/thread.h"

namespace lockstep::detail {

// Counts who may be touching the memory of a group's operations right now: the
// lane while it runs one, a local step, a transfer's `finish`. Before an error
// that ends the group reaches the program it waits until the count is zero, so
// the exception may unwind past buffers that operations were launched with.
//
//   {
//     const MemoryUsers::Scope scope(users);   // counted
//     backend.check();                         // throws if it is too late
//     backend.run(op, patience);
//   }
//   ... the group has failed, so nobody new gets past check() ...
//   users.wait_none(deadline);
//
// Threads: any. A thread inside a Scope, of any group, must not wait, because
//          others may be waiting for it.
class MemoryUsers {
 public:
  class Scope {
   public:
    explicit Scope(MemoryUsers& users) : users_(users) {
      ++users_.count_;
      ++scopes_here_;
    }
    ~Scope() {
      --scopes_here_;
      users_.leave();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryUsers& users_;
  };

  // Whether the calling thread is inside a Scope.
  static bool is_this_thread_one() { return scopes_here_ > 0; }

  // Waits until the count is zero; false when the deadline has passed.
  bool wait_none(Deadline deadline) {
    if (count_ == 0) return true;
    std::unique_lock lock(mutex_);
    ++waiters_;
    const bool none =
        none_.wait_until(lock, deadline.time(), [&] { return count_ == 0; });
    --waiters_;
    return none;
  }

 private:
  // A waiter counts itself before it looks at the count; we change the count
  // before we look for waiters.
  void leave() {
    if (--count_ != 0 || waiters_ == 0) return;
    { const std::lock_guard lock(mutex_); }
    none_.notify_all();
  }

  static inline thread_local int scopes_here_ = 0;

  std::atomic<int> count_{0};
  std::atomic<int> waiters_{0};
  std::mutex mutex_;  // guards nothing but the moment before a waiter sleeps
  std::condition_variable none_;
};

}  // namespace lockstep::detail

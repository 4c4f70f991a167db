// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/thread.h"

namespace lockstep::detail {

// A Lane runs tasks one after the other, in the order they came: on its own
// thread, or, when it is idle and somebody wants to wait anyway, on theirs.
//
//   lane.push(std::move(task));          // later, on the lane's thread
//   if (lane.try_enter()) {              // now, here
//     task->run();
//     lane.leave();
//   }
//
// The thread starts with the first push. No task may wait for another: waiting
// for a Future is a UsageError while a task runs on the lane's thread.
//
// Threads:   any.
// Ownership: the destructor runs what was pushed, and joins.
class Lane {
 public:
  class Task {
   public:
    virtual ~Task() = default;
    virtual void run() noexcept = 0;
  };

  // `rank` is whose events the thread's trace shows.
  Lane(std::string name, int rank);
  ~Lane();

  // Starts the thread, unless it runs: the one part of push() that can fail.
  void start();
  void push(std::unique_ptr<Task> task);

  // True when the lane was idle: it is the caller's until leave().
  bool try_enter();
  void leave();

  // Leaves at its end.
  class Visit {
   public:
    explicit Visit(Lane& lane) : lane_(lane) {}
    ~Visit() { lane_.leave(); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Lane& lane_;
  };

  // Waits until nothing is queued or running; false when the deadline passed.
  bool wait_idle(Deadline deadline);

 private:
  void serve();
  void wake_idle();

  const std::string name_;
  const int rank_;

  // How many tasks are queued or running, and whether a caller is inside: so
  // entering and leaving an idle lane are one atomic step each.
  std::atomic<uint32_t> load_{0};
  static constexpr uint32_t kEntered = uint32_t{1} << 31;
  std::atomic<int> idle_waiters_{0};

  std::mutex mutex_;
  std::condition_variable wanted_;  // the thread has something to do
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Task>> queue_ LOCKSTEP_GUARDED_BY(mutex_);
  bool closing_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool started_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace lockstep::detail

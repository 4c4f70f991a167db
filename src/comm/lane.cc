// SPDX-License-Identifier: Apache-2.0
#include "comm/lane.h"

#include <utility>

#include "lockstep/base/caller_state.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {

Lane::Lane(std::string name, int rank) : name_(std::move(name)), rank_(rank) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void Lane::start() {
  const std::lock_guard lock(mutex_);
  if (started_) return;
  thread_ = Thread(name_, [this] { serve(); });
  started_ = true;
}

void Lane::push(std::unique_ptr<Task> task) {
  start();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    ++load_;
  }
  wanted_.notify_one();
}

bool Lane::try_enter() {
  uint32_t idle = 0;
  return load_.compare_exchange_strong(idle, kEntered);
}

void Lane::leave() {
  const uint32_t left = load_ -= kEntered;
  if (left == 0) return wake_idle();
  // The thread may be waiting for us. With the lock taken, it is not between
  // looking and falling asleep.
  { const std::lock_guard lock(mutex_); }
  wanted_.notify_one();
}

// Whoever waits for idleness counts itself first and then looks at the load; we
// have changed the load, and look at the count.
void Lane::wake_idle() {
  if (idle_waiters_ == 0) return;
  { const std::lock_guard lock(mutex_); }
  idle_.notify_all();
}

bool Lane::wait_idle(Deadline deadline) {
  std::unique_lock lock(mutex_);
  ++idle_waiters_;
  const bool idle =
      idle_.wait_until(lock, deadline.time(), [&] { return load_ == 0; });
  --idle_waiters_;
  return idle;
}

void Lane::serve() {
  const NoWaitScope no_wait;
  trace::set_thread_rank(rank_);
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [&] {
      return load_ < kEntered && (closing_ || !queue_.empty());
    });
    if (queue_.empty()) return;
    std::unique_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task->run();
    task.reset();  // what it kept alive may be large, or call back
    if (--load_ == 0) wake_idle();
    lock.lock();
  }
}

}  // namespace lockstep::detail

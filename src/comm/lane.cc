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
    if (busy_) return;  // whoever is in there sees it when it leaves
  }
  wanted_.notify_one();
}

bool Lane::try_enter() {
  const std::lock_guard lock(mutex_);
  if (!is_idle()) return false;
  busy_ = true;
  return true;
}

void Lane::leave() {
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    wanted = !queue_.empty() || closing_;
  }
  if (wanted) wanted_.notify_one();
  idle_.notify_all();
}

bool Lane::wait_idle(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline.time(), [&] { return is_idle(); });
}

void Lane::serve() {
  const NoWaitScope no_wait;
  trace::set_thread_rank(rank_);
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [&] { return !busy_ && (closing_ || !queue_.empty()); });
    if (queue_.empty()) return;
    std::unique_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    task->run();
    task.reset();  // what it kept alive may be large, or call back
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "comm/memory_users.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::detail {

// Sends and receives in flight: completes their Works, keeps their time.
//
// A transfer that is done at once never sees a thread, and one that its caller
// waits for is watched by the caller. The rest are watched by a thread, which
// starts with the first of them and sleeps until the group's bell rings.
//
// Ownership: the destructor waits for sends, within their timeouts, and
//            withdraws receives.
class PointToPoint {
 public:
  // `on_error` is called before a transfer that has failed completes its Work.
  PointToPoint(const GroupPlace& place, Deadline::Duration notice_after,
               MemoryUsers& memory_users, std::function<void()> on_error);
  ~PointToPoint();

  // `context` goes into errors.
  std::shared_ptr<Work> start(std::unique_ptr<Transfer> transfer, OpKind kind,
                              uint32_t tag, ErrorContext context,
                              Deadline::Duration timeout, CallOptions options);

  // Waits until no send is pending; false when the deadline passed.
  bool wait_sent(Deadline deadline);

 private:
  struct Pending;
  using PendingList = std::list<std::unique_ptr<Pending>>;

  void watch(Pending& pending);
  void serve();
  Deadline look_at_all(PendingList& active);
  int sends_of(const PendingList& list) const;

  const int rank_;
  const std::string group_;
  const std::shared_ptr<Bell> bell_;
  const Deadline::Duration notice_after_;
  MemoryUsers& memory_users_;
  const std::function<void()> on_error_;

  std::mutex mutex_;
  std::condition_variable changed_;
  PendingList arriving_ LOCKSTEP_GUARDED_BY(mutex_);
  int sends_ LOCKSTEP_GUARDED_BY(mutex_) = 0;  // not completed yet
  bool started_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  bool closing_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace lockstep::detail

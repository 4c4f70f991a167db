// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep::detail {

// Functions that are called in the order in which they were added.
template <class... Args>
class NoticeList {
 public:
  using Notice = std::function<void(Args...)>;

  void add(Notice notice, const char* call) {
    LOCKSTEP_CHECK(notice != nullptr, UsageError, "{} got an empty function",
                   call);
    notices_.push_back(std::move(notice));
  }
  // Calls a copy of the list: a notice may destroy the Reducer, and this list
  // with it.
  void operator()(Args... args) const {
    const std::vector<Notice> notices = notices_;
    for (const Notice& notice : notices) notice(args...);
  }
  void clear() { notices_.clear(); }

 private:
  std::vector<Notice> notices_;
};

// The functions that a Reducer calls on events, a list for each event: the
// wrapper, an optimizer and the program may all add one.
//
// Threads: changed between steps only, and called without the Reducer's lock.
struct Notices {
  NoticeList<> first_launch;
  NoticeList<> backward_end;
  NoticeList<const BucketPlan&, const BucketPlan&> plan_change;
  NoticeList<const std::shared_ptr<ProcessGroup>&> group_change;
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "lockstep/base/deadline.h"
#include "lockstep/base/thread.h"

namespace lockstep {

// A Turn is a mutex that can be waited for until a deadline, for what is held
// while something slow goes on: a file lock, a full socket.
//
//   auto turn = sending_.take(deadline);
//   if (!turn) throw TimeoutError(...);
//
// (std::timed_mutex would do, but the thread sanitizer does not know it.)
class Turn {
 public:
  struct GiveBack {
    void operator()(Turn* turn) const { turn->give_back(); }
  };
  // Held while this lives.
  using Held = std::unique_ptr<Turn, GiveBack>;

  // Null when the deadline passed first.
  Held take(Deadline deadline);

 private:
  void give_back();

  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ LOCKSTEP_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep

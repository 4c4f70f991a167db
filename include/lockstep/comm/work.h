// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/base/future.h"
#include "lockstep/collective/collective_op.h"

namespace lockstep {

// A Work is the handle of one operation in flight.
//
//   auto work = group->all_reduce(buffer);
//   ...                                    // compute meanwhile
//   work->wait();                          // throws what went wrong
//
// Dropping it cancels nothing: the operation goes on, and a barrier or the end
// of the group waits for it. Its memory belongs to the operation until it has
// completed. Works of one group complete in the order of their launch.
//
// Completion makes the result visible, runs the continuations of future(), and
// then wakes those who wait.
//
// Threads: every method from any thread; wait() is a UsageError on a lane
//          thread, where continuations run: it would wait for itself.
class Work {
 public:
  // A handle for `kind`; `sequence` is -1 for what is no collective. Made by
  // groups.
  Work(OpKind kind, int64_t sequence);
  // One that has succeeded already.
  Work(OpKind kind, int64_t sequence, Deadline::Duration duration);

  // Returns when the operation has succeeded, or throws its error. It ends by
  // itself: every operation has a deadline.
  void wait() const;

  // The same for a while. TimeoutError when it is still going on then; it does
  // go on, and may be waited for again.
  void wait(Deadline::Duration timeout) const;

  bool is_completed() const { return future_.is_ready(); }
  bool is_success() const { return future_.has_value(); }
  // Its error once it has failed, else null.
  std::exception_ptr exception() const { return future_.error(); }

  // Who sent what was received. UsageError for anything but a receive that
  // has succeeded.
  int source_rank() const;

  // Its place in the order of collectives on its group, counted from 0; -1 for
  // point to point and local steps.
  int64_t sequence_number() const { return sequence_; }
  OpKind op() const { return kind_; }

  // How long it ran, without the time in the queue; zero until it completes,
  // and for a synchronous call that did not have to sleep.
  Deadline::Duration duration() const;

  // For continuations: ready when the operation has completed.
  const Future<void>& future() const { return future_; }

  // For groups.
  void complete(Deadline::Duration duration);
  void fail(std::exception_ptr error, Deadline::Duration duration);
  void set_source(int rank) { source_ = rank; }

 private:
  void check_thread() const;

  const OpKind kind_;
  const int64_t sequence_;
  std::atomic<int> source_{-1};
  std::atomic<int64_t> duration_ns_{0};
  std::optional<Promise<void>> promise_;  // none when it is born completed
  const Future<void> future_;
};

}  // namespace lockstep

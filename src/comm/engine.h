// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/lane.h"
#include "comm/memory_users.h"
#include "comm/point_to_point.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::detail {

// The engine of a ProcessGroup: sequence numbers, the lane, deadlines, the
// first failure and what follows from it. It knows nothing of what the single
// collectives mean; process_group.cc says that.
//
// A flag guards the launching side, a mutex the failure; neither is held while
// a backend, a continuation or a local step runs.
//
// Whatever throws because the group has failed calls settle() first: from then
// on no operation of the group touches its memory.
class Engine {
 public:
  Engine(BackendFactory factory, GroupPlace place, GroupOptions options);
  ~Engine();

  const GroupPlace& place() const { return place_; }
  const GroupOptions& options() const { return options_; }
  const BackendFactory& factory() const { return factory_; }
  Backend& backend() { return *backend_; }
  int64_t sequence_number() const { return sequence_; }

  // Queues `op`, or runs it here when the caller wants to wait. `op` has been
  // checked; its sequence number is given here.
  std::shared_ptr<Work> launch(CollectiveOp&& op, CallOptions&& options);

  // Waits for registered memory, in the lane's order.
  RegisteredMemory allocate(CollectiveOp op, CallOptions options);

  std::shared_ptr<Work> compose(OpKind kind,
                                std::function<void(LaneCalls&)> steps,
                                CallOptions options);

  std::shared_ptr<Work> post(std::function<void()> step, StepOptions options);

  std::shared_ptr<Work> transfer(OpKind kind, Buffer buffer, int peer,
                                 uint32_t tag, CallOptions options);

  // Takes a sequence number for something that is made of several messages,
  // once all that was launched before has completed.
  int64_t begin_blocking(const char* what, Deadline deadline);

  void shutdown(Deadline deadline);
  void fail(const std::exception_ptr& cause) noexcept;
  std::exception_ptr failure() const;
  void on_failure(ProcessGroup::FailureNotice notice);

  // Throws when the group is closed or has failed.
  void check_usable(const char* what);

  ErrorContext context(const char* what, int64_t sequence = -1) const;

 private:
  class Running;
  class OpTask;
  class StepTask;

  // The right to launch, which one thread has at a time; nobody waits for it.
  class LaunchTurn {
   public:
    explicit LaunchTurn(std::atomic<bool>& taken)
        : taken_(taken.exchange(true) ? nullptr : &taken) {}
    ~LaunchTurn() { end(); }
    LaunchTurn(LaunchTurn&& other) noexcept
        : taken_(std::exchange(other.taken_, nullptr)) {}
    LaunchTurn& operator=(LaunchTurn&&) = delete;
    LaunchTurn(const LaunchTurn&) = delete;
    LaunchTurn& operator=(const LaunchTurn&) = delete;

    explicit operator bool() const { return taken_ != nullptr; }
    void end() {
      if (taken_ != nullptr) taken_->store(false, std::memory_order_release);
      taken_ = nullptr;
    }

   private:
    std::atomic<bool>* taken_;  // null: not ours
  };

  // What an OpTask does when its turn has come; without it, backend_->run.
  using Action =
      std::function<void(const CollectiveOp& op, Patience& patience)>;

  // May take `op` and `options` over.
  std::shared_ptr<Work> launch_task(CollectiveOp& op, CallOptions& options,
                                    Action action);
  std::shared_ptr<Work> run_here(const CollectiveOp& op,
                                 const CallOptions& options,
                                 const Action& action);
  LaunchTurn take_turn(const char* what);
  void check_launching_thread(const char* what) const;
  void check_healthy() const;  // AbortedError once the group has failed

  // Also asks the backend, which hears of other ranks' failures by itself. To
  // be called before memory is touched that a program may free after that.
  void check_alive() const;
  bool has_failed() const noexcept;

  // In the lane: waits until `after` is ready, if it is valid at all.
  // Errors: its own; TimeoutError; what check_alive() throws meanwhile.
  void wait_for(const Future<void>& after, Deadline::Duration timeout) const;

  // Waits until no operation touches its memory any more. For errors that end
  // the group, after fail() or after the backend has said that it failed. Does
  // nothing inside a MemoryUsers::Scope.
  void settle() noexcept;

  const BackendFactory factory_;
  const GroupPlace place_;
  const GroupOptions options_;
  std::unique_ptr<Backend> backend_;

  // Set while one call takes its place in the order.
  std::atomic<bool> launching_{false};
  std::atomic<int64_t> sequence_{0};
  std::atomic<bool> closed_{false};

  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_ LOCKSTEP_GUARDED_BY(failure_mutex_);
  std::vector<ProcessGroup::FailureNotice> failure_notices_
      LOCKSTEP_GUARDED_BY(failure_mutex_);
  std::atomic<bool> failed_{false};  // failure_ is set

  MemoryUsers memory_users_;
  PointToPoint point_to_point_;
  Lane lane_;  // last: its thread uses all of the above
};

// Runs `action`; an Error that leaves it has what `context()` returns filled
// in, which is made only then.
template <class MakeContext, class Action>
auto with_context(const MakeContext& context, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    rethrow_with_context(error, context());
  }
}

}  // namespace lockstep::detail

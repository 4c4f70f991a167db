// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

// What a thread brings along, and what it may not do.
namespace lockstep {

// A continuation runs on another thread than the one that wrote it, where
// thread-local settings of other libraries (libtorch's gradient mode) have
// other values. A carrier takes the caller's along: it gets a callback on the
// caller's thread and returns one that runs it with the settings of that
// moment. There is one carrier per process; the tensor layer installs it.
using Callback = std::function<void()>;
using StateCarrier = Callback (*)(Callback callback);
void set_state_carrier(StateCarrier carrier);

// `callback` as it is when there is no carrier.
Callback with_caller_state(Callback callback);

// While it lives, this thread may not wait for a Future: it is one of those
// that complete them. Whoever tries gets a UsageError instead of a deadlock.
class NoWaitScope {
 public:
  NoWaitScope();
  ~NoWaitScope();
  NoWaitScope(const NoWaitScope&) = delete;
  NoWaitScope& operator=(const NoWaitScope&) = delete;

  static bool is_active();  // on this thread
  // Errors: UsageError when it is; `what` says who wants to wait.
  static void check(std::string_view what);

 private:
  bool before_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/caller_state.h"

#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::atomic<StateCarrier> the_carrier{nullptr};
thread_local bool may_not_wait = false;

}  // namespace

void set_state_carrier(StateCarrier carrier) { the_carrier = carrier; }

Callback with_caller_state(Callback callback) {
  const StateCarrier carrier = the_carrier.load(std::memory_order_acquire);
  return carrier == nullptr ? callback : carrier(std::move(callback));
}

NoWaitScope::NoWaitScope() : before_(may_not_wait) { may_not_wait = true; }
NoWaitScope::~NoWaitScope() { may_not_wait = before_; }
bool NoWaitScope::is_active() { return may_not_wait; }

void NoWaitScope::check(std::string_view what) {
  LOCKSTEP_CHECK(!may_not_wait, UsageError,
                 "{}: waiting on a lane thread, where continuations and posted "
                 "steps run, could last for ever; continue with then() instead",
                 what);
}

}  // namespace lockstep

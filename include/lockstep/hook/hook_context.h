// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"

namespace lockstep {

// What a communication hook works with. It gets one with every bucket, so that
// it captures nothing that a reset of the Reducer would make invalid.
//
// Ownership: a value, good for as long as the groups in it.
class HookContext {
 public:
  using Group = std::shared_ptr<ProcessGroup>;
  using OpenLane = std::function<Group(const std::string& name)>;

  // With a null `open_lane` there is group() only.
  HookContext(Group group, int divisor, int64_t iteration, OpenLane open_lane)
      : group_(std::move(group)),
        divisor_(divisor),
        iteration_(iteration),
        open_lane_(std::move(open_lane)) {}

  // The Reducer's own lane, to launch on. Collectives of the program are on
  // other lanes and cannot come between, and when one rank fails the others
  // hear of it at once.
  const Group& group() const { return group_; }

  // What sums are divided by: the number of ranks, or the number that
  // Reducer::set_divisor() was given for this backward.
  int divisor() const { return divisor_; }

  // Backwards reduced before this one, counted from 0.
  int64_t iteration() const { return iteration_; }

  // Another lane among the same ranks, for what is to run beside group(): it
  // fails and is reset with the Reducer. The first call with a name opens the
  // lane: a collective that blocks, so all ranks make it for the same bucket.
  // Order between two lanes: CallOptions::after.
  // Errors: UsageError in a context that no Reducer made.
  Group lane(const std::string& name) const {
    if (!open_lane_) {
      throw UsageError("lane '" + name +
                       "': this HookContext was made without lanes; take one "
                       "from Reducer::hook_context(), or give the constructor "
                       "a function that opens lanes");
    }
    return open_lane_(name);
  }

 private:
  Group group_;
  int divisor_;
  int64_t iteration_;
  OpenLane open_lane_;
};

}  // namespace lockstep

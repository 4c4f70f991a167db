// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/comm/process_group.h"

namespace lockstep::testing {

// What is in flight while a group fails.
struct Traffic {
  bool messages = true;
  bool collectives = true;
};

// Sends, receives, sums and local steps with all other ranks, round after
// round, in an order of waits that is drawn from `seed`. The first call or wait
// that throws unwinds past the buffers of everything that is still in flight;
// from then on, touching one of them ends the process.
//
// In rounds for which `is_wrong` says so, this rank's sum has another size.
// Errors: what ended the group; there is no other way out.
[[noreturn]] void exchange_until_it_fails(
    ProcessGroup& group, Traffic traffic, uint32_t seed,
    const std::function<bool(int round)>& is_wrong = nullptr);

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/refusal.h"
#include "lockstep/comm/backend.h"
#include "lockstep/net/socket.h"

namespace lockstep::detail {

// Connects this rank with each other rank of its group; all of them call it.
// Each listens on the first of its `addresses` and writes into the store where;
// a connection begins with words that only readers of the store know, so
// strangers and garbage are turned away. Returns a connection per rank, none
// for this one.
//
// `terms` is a text for people that all ranks must have alike: how they are
// going to use the network.
//
// What fails here alone is told to the others by `refusal`; what they tell ends
// the waiting here.
//
// Errors: TimeoutError names the ranks that did not come; SystemError when
//         there is no port or descriptor left; MismatchError when another rank
//         has other terms; UsageError when hosts differ and one of the
//         addresses is for its own host only.
std::vector<Socket> connect_wire(const GroupPlace& place,
                                 const std::vector<std::string>& addresses,
                                 const std::string& terms, Deadline deadline,
                                 Refusal& refusal);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/comm/backend.h"
#include "lockstep/net/socket.h"

namespace lockstep::detail {

// Connects this rank with each other rank of its group; all of them call it.
// Each listens on `here` and writes into the store where; a connection begins
// with words that only readers of the store know, so strangers and garbage are
// turned away. Returns a connection per rank, none for this one.
//
// `terms` is a text for people that all ranks must have alike: how they are
// going to use the network.
//
// `look` is called from time to time, and ends the waiting by throwing.
//
// Errors: TimeoutError names the ranks that did not come; SystemError when
//         there is no port or descriptor left; MismatchError when another rank
//         has other terms.
std::vector<Socket> connect_wire(const GroupPlace& place,
                                 const std::string& here,
                                 const std::string& terms, Deadline deadline,
                                 const std::function<void()>& look);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/net/address.h"
#include "lockstep/net/socket.h"

namespace lockstep::detail {

// A connection to the store server at `address` on which both sides have
// proved the secret. Tries again, with pauses that grow and vary, while the
// host does not resolve, nobody listens, or the connection breaks.
//
// Errors: TimeoutError with host, port, tries and the last reason; PeerError
//         at once for a wrong secret, a wrong version or a foreign service.
Socket connect_to_store(const Address& address, const std::string& secret,
                        Deadline deadline);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"

// What every backend says alike about other ranks. The first rank it is about
// is context().peer.
namespace lockstep {

// These ranks did not come within `timeout`.
TimeoutError late_ranks(Deadline::Duration timeout,
                        const std::vector<int>& ranks);

// That rank has left the group in good order, and is needed.
PeerError rank_that_left(int rank);

// As people write a list of ranks: "rank 3", "ranks 0, 2".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace lockstep

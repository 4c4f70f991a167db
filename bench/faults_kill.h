// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "support.h"

namespace lockstep::bench {

// How long it takes from SIGKILL of a rank, at a random moment of random
// collectives, to the PeerError of the last of the others. Adds the rows "shm
// kill p50" and "shm kill p99", in seconds, for backend shm; the rival is the
// goal.
//
// Errors: InternalError when a survivor gets another error, or names another
//         rank than the dead one.
void measure_kills(Report& report, const std::string& backend,
                   double goal_seconds);

}  // namespace lockstep::bench

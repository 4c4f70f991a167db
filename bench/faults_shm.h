// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support.h"

namespace lockstep::bench {

// How long it takes from SIGKILL of a rank on backend shm, at a random moment
// of random collectives, to the PeerError of the last of the others. Adds the
// rows "shm kill p50" and "shm kill p99", in seconds; the rival is the goal.
//
// Errors: InternalError when a survivor gets another error, or names another
//         rank than the dead one.
void measure_shm_kills(Report& report);

}  // namespace lockstep::bench

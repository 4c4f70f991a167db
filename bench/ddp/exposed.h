// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support.h"

namespace lockstep::bench {

// The case "exposed-1gbit": two hosts with 1 Gbit/s between them, 24 equal
// layers with a bucket each, and a batch with which backward takes as long as
// communication. Which share of communication sticks out behind backward, and
// how long a step takes. Without hosts (no root) it is said to be absent.
constexpr const char* kExposedCase = "exposed-1gbit";
void run_exposed(Report& report);

}  // namespace lockstep::bench

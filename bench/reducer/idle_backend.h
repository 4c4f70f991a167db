// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/process_group.h"

namespace lockstep::bench {

// A world of one whose backend does nothing: an all-reduce leaves its data as
// it is. What remains is the cost of those who call it.
std::shared_ptr<ProcessGroup> make_idle_group();

}  // namespace lockstep::bench

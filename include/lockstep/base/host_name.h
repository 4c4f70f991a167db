// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::detail {

// What this host calls itself, for messages; "?" when the system does not say.
// Not for programs: several layers of lockstep share it.
std::string host_name();

}  // namespace lockstep::detail

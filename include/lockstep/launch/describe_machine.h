// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

// The cores this process may use, and which rank would get which, as a few
// lines of text. Errors: SystemError.
std::string describe_machine();

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::detail {

// What two processes have in common exactly when they can share memory and see
// each other in /proc: this boot of this kernel, and the namespace of process
// numbers. Host names say nothing: containers change them.
std::string host_identity();

// The host's name, for messages.
std::string host_name();

}  // namespace lockstep::detail

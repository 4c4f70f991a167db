// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/comm/registered_memory.h"

namespace lockstep::detail {

// Zeroed pages of this process, for backends that move any memory alike.
// Errors: SystemError when there are none.
RegisteredMemory plain_memory(size_t bytes);

}  // namespace lockstep::detail

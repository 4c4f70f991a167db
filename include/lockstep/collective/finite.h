// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/collective/types.h"

namespace lockstep {

// The index of the first element that is infinite or NaN; data.count when there
// is none. Reads at the speed of memory. Integers are finite.
size_t first_non_finite(Buffer data);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::detail {

// Writes the indices of the `wanted` values that are largest in absolute value,
// ascending, to `indices`. Of equal values those with the lowest indices are
// taken; NaN counts as larger than infinity. Needs 0 < wanted <= count < 2^32.
//
// Returns true if all values that were not chosen are finite.
//
// Goes three times over the values, and sorts little: quicker by far than
// sorting or selecting among all of them.
bool find_largest(const float* values, size_t count, size_t wanted,
                  uint32_t* indices);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/collective/types.h"

namespace lockstep::tool {

// Puts a whole or fractional number into an element of any type: floats are
// rounded to nearest, integers wrap around.
void put_element(std::byte* at, DType dtype, double value);

// Whether the floating element is within two roundings of `value`.
bool is_near(const std::byte* at, DType dtype, double value);

}  // namespace lockstep::tool

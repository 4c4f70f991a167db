// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collective/types.h"

// float32 to the 16-bit types and back, at the speed of memory. Rounds to
// nearest, ties to even; what is too large for float16 becomes infinite, and a
// NaN stays a NaN. Results do not depend on the processor.
namespace lockstep {

// to[i] = from[i] * factor, the product being rounded to float32 first.
// `to` is float16 or bfloat16; `from` has as many elements.
void narrow(const float* from, Buffer to, float factor = 1);

// to[i] = from[i], exactly. `from` is float16 or bfloat16.
void widen(Buffer from, float* to);

}  // namespace lockstep

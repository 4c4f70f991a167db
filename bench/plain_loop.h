// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/collective/reduce.h"

namespace lockstep::bench {

// What one would write first: out[i] = a[i] op b[i], element by element, with
// the conversions of half.h, for the instruction set that every machine has.
// The compiler may make of it what it can.
void plain_loop(const Reduction& reduction, const void* a, const void* b,
                void* out, size_t count);

// The same, element by element indeed: without the compiler's own vectors.
void scalar_loop(const Reduction& reduction, const void* a, const void* b,
                 void* out, size_t count);

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/collective/reduce.h"

namespace lockstep::testing {

using Memory = std::vector<std::byte>;

// What reduce() should give, computed the dull way: one element at a time, with
// the conversions of half.h.
Memory reduce_reference(const Reduction& reduction,
                        const std::vector<Memory>& inputs, size_t count);

// `count` elements that try a type: mostly small numbers, some of any bits.
// Equal seeds give equal elements.
Memory some_elements(DType dtype, size_t count, unsigned seed);

// The first of `count` elements at which the two differ, or `count`. A NaN is
// as good as another.
size_t first_difference(DType dtype, const void* a, const void* b,
                        size_t count);

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/collective/types.h"

namespace lockstep {

// What to compute: one result element from one element of each input.
struct Reduction {
  ReduceOp::Kind kind = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  // kPremulSum: one factor per input. Others do not look at it.
  const double* factors = nullptr;
};

// The one arithmetic of all collectives:
//
//   outputs[*][i] = inputs[0][i] op inputs[1][i] op ...     for i < count
//
// in that order whatever the sizes, so the bits depend on nothing else. Each
// input is read once and each output written once; kAverage divides by
// `input_count` on the way. An output may be one of the inputs (exactly the
// same pointer); other overlaps are not allowed. Pointers need the alignment
// of their element only. The vector instructions are chosen at run time.
//
// The operation must be defined for the type (check_defined).
void reduce(const Reduction& reduction, const void* const* inputs,
            int input_count, void* const* outputs, int output_count,
            size_t count);

// Copies bytes, as one of several ranks that copy `all_bytes` together at this
// moment: what would not stay in the caches anyway is written past them, so
// memory need not read what is overwritten.
void copy_shared(void* to, const void* from, size_t bytes, size_t all_bytes);

// The name of the instruction set in use, for `lockstep info` and benchmarks.
const char* reduce_target();

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "lockstep/collective/reduce.h"
#include "lockstep/collective/types.h"

// How reduce() is made of parts:
//
//   reduce.cc            the door: finds the kernel, goes over the outputs
//   reduce_stream.cc     copies a block past the caches
//   reduce_floats.cc     the kernels of one group of types each: their
//   reduce_halves.cc       elements and which operations they have
//   reduce_integers.cc
//   reduce_loops-inl.h   the loops that all kernels are instances of
//   reduce_ops-inl.h     the operations
//   halves-inl.h         the 16-bit types as elements of loops
//   reduce_targets.h     for which instruction sets they are compiled
//
// Everything in a file "-inl.h" is compiled once per instruction set, in a
// namespace of its own. The loops are plain: the compiler makes vectors of
// them. -ffp-contract=off is what keeps it from fusing a multiplication and an
// addition on one target and not on another.
namespace lockstep::detail {

// One result: elements [begin, begin + count) of all inputs into `output`,
// whose first element is that of `begin`.
struct Operands {
  const void* const* inputs = nullptr;
  int input_count = 0;
  const double* factors = nullptr;  // kPremulSum: one per input
  size_t begin = 0;
  size_t count = 0;
  void* output = nullptr;  // may be where one of the inputs begins
  void* copy = nullptr;    // another output, if not null; only for two inputs
};
using Kernel = void (*)(const Operands&);

// The best kernel for this machine; null when the operation is not defined.
Kernel float_kernel(ReduceOp::Kind kind, DType dtype);    // float32, float64
Kernel half_kernel(ReduceOp::Kind kind, DType dtype);     // float16, bfloat16
Kernel integer_kernel(ReduceOp::Kind kind, DType dtype);  // bool, too

constexpr size_t kCacheLine = 64;

// Inputs that will be read next, from byte `begin` on.
struct Upcoming {
  const void* const* inputs;
  int input_count;  // 0: none
  size_t begin;
};

// Copies whole lines past the caches, for what would not stay there anyway: so
// memory need not read what is overwritten. As much of `next` is fetched
// meanwhile. Another thread may look after fence_stream().
void stream_copy(void* target, const void* source, size_t bytes,
                 const Upcoming& next);
void fence_stream();

// reduce() with the way to write outputs given: it takes kStreaming for what is
// large. The results are the same.
enum class Stores { kCached, kStreaming };
void reduce_with(Stores stores, const Reduction& reduction,
                 const void* const* inputs, int input_count,
                 void* const* outputs, int output_count, size_t count);

}  // namespace lockstep::detail

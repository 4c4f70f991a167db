// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/hook/comm_hook.h"

namespace lockstep::hooks {

struct QuantizeOptions {
  // Of each number on the way: 8 or 4.
  int bits = 8;
  // Neighbouring elements that share a scale: a multiple of 64, from 64 to
  // 65536. Smaller blocks follow the gradients more closely and send more
  // scales, 32 bits each.
  int block = 512;
  // Keep what rounding has left out, and add it to the next gradients.
  bool error_feedback = true;
  // Of the random numbers that rounding draws. Two runs with the same seed give
  // the same bits. Ranks draw different numbers with one seed.
  uint64_t seed = 0;
};

// Gradients that travel as 8 or 4 bits: a quarter or an eighth of the bytes.
//
//   ddp.register_comm_hook(hooks::quantize());
//
// Each block of gradients is divided by a scale, the largest absolute value of
// the block / 127 (8 bits) or / 7 (4 bits), and rounded to one of the two whole
// numbers beside it, at random, so that the expected value is the gradient.
// Every rank sends each rank a piece of its gradients in this form, sums what
// it gets for its own piece in float32 in the order of ranks, divides as
// context.divisor() says, rounds the averages in the same way and sends them to
// all. So each gradient is rounded twice, however many ranks there are.
//
// Bytes:    a rank sends 2 (N - 1) / N times the gradients' number of elements
//           times bits / 8, and 4 bytes more per block. A plain all_reduce has
//           4 in place of bits / 8.
// Time:     for 25 MB and 8 bits, one core: 4 ms to round, 1.5 ms per pass to
//           bring back (AVX2 or AVX-512). All of it on the lane's thread,
//           beside backward.
// Error:    one rounding changes a number by at most the scale of its block. A
//           result is off by at most the average of the ranks' scales plus the
//           scale of the averages. It is the same on all ranks, bit by bit.
// Feedback: costs as much memory as the gradients, on each rank. Each rank
//           keeps what its own rounding has left out, and for its piece what
//           rounding the averages has: over the steps nothing is lost. It
//           belongs to parameters and stays with them when buckets are rebuilt.
//
// A block in which some rank has an infinite number or a NaN becomes NaN on all
// ranks; what such a rank had left out of this block is forgotten.
//
// Dense buckets of float32 are compressed. Other buckets, and all of them where
// there is one rank only, are reduced as they are, exactly.
//
// Ownership: a hook is for one Reducer. Copies share what was left out.
// Threads:   as for CommHook.
// Errors:    UsageError here names an option that is wrong; MismatchError out
//            of backward() when ranks have different bits or blocks.
CommHook quantize(const QuantizeOptions& options = {});

}  // namespace lockstep::hooks

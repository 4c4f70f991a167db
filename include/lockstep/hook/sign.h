// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/hook/comm_hook.h"

namespace lockstep::hooks {

struct SignOptions {
  // Neighbouring elements that share a scale: a multiple of 64, from 64 to
  // 65536. The scales of 512 elements add 6 % to their signs.
  int block = 512;
  // Keep what the signs have left out, and add it to the next gradients.
  // Without that a result tells the direction of an element and nothing of its
  // size: most trainings stop short of where they should get.
  bool error_feedback = true;
};

// Gradients that travel as their signs: one bit for each, 1/30 of the bytes.
//
//   ddp.register_comm_hook(hooks::sign());
//
// Each block of gradients becomes the signs of its elements and the mean of
// their absolute values, the scale: an element stands for + scale or - scale.
// Zero counts as positive. Averages are made and sent as quantize() does it
// (quantize.h), as signs and scales once more; nothing is random.
//
// Bytes:    a rank sends 2 (N - 1) / N times a bit per element, and 4 bytes
//           per block.
// Time:     for 25 MB, one core: 4 to 5 ms to encode, 1 ms per pass to bring
//           back (AVX2 or AVX-512), on the lane's thread, beside backward.
// Error:    of one encoding at most the largest absolute value of the block;
//           large in a single step, and made up for over the steps by
//           feedback. Results are the same on all ranks, bit by bit.
// Feedback: as in quantize.h: memory like the gradients, by parameter.
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
//            of backward() when ranks have different blocks.
CommHook sign(const SignOptions& options = {});

}  // namespace lockstep::hooks

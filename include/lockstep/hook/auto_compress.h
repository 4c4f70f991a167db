// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/hook/comm_hook.h"

namespace lockstep::hooks {

struct AutoCompressOptions {
  // So many steps of each candidate are not counted, and so many are. The
  // median of the latter is what it takes.
  int warm_up_steps = 2;
  int measured_steps = 3;
  // A candidate must make steps that many times as fast as the plain average,
  // or the plain average stays: where links are fast nothing pays.
  double min_gain = 1.05;
};

// Tries the candidates in the first steps and goes on with the one that makes
// steps shortest, or with plain all_reduce where none pays.
//
//   ddp.register_comm_hook(hooks::auto_compress(
//       {hooks::fp16_compress(), hooks::quantize(), hooks::sign()}));
//
// What counts is the time from step to step, computing and all, of the slowest
// rank: a hook that saves bytes but costs more arithmetic than it saves does
// not win. Every rank takes the same choice. A line in the log says which, with
// the times of all.
//
// Candidates are hooks of the caller's choice. Without any, fp16_compress and
// bf16_compress: nothing that loses more than 16 bits do is tried unless it is
// named. The trial trains, too: it uses each candidate's gradients. A hook that
// begins to compress later (power_sgd) is judged by what it does in the trial:
// give it a small start_iter. Do not evaluate or save within the first steps:
// pauses count.
//
// After a reset of the Reducer the trial begins again.
//
// Errors: UsageError for an empty candidate, one that updates parameters, or
//         options out of range.
CommHook auto_compress(std::vector<CommHook> candidates = {},
                       const AutoCompressOptions& options = {});

}  // namespace lockstep::hooks

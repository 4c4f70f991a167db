// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/hook/comm_hook.h"

// Hooks by name, for programs that take theirs from a command line:
//
//   ddp.register_comm_hook(hooks::make("power_sgd:rank=2,start_iter=100"));
//   ddp.register_comm_hook(hooks::make("fp16_compress"));
//   ddp.register_comm_hook(
//       hooks::make("auto_compress(fp16_compress|quantize:bits=4)"));
//
// A name, then options behind a colon: as their struct has them, numbers, or
// true and false. Hooks around others have these in parentheses.
//
//   all_reduce  noop
//   fp16_compress  bf16_compress             also with (HOOK)
//   quantize    bits, block, error_feedback, seed
//   sign        block, error_feedback
//   top_k       ratio, error_feedback
//   power_sgd  batched_power_sgd
//               rank, start_iter, min_compression_rate, error_feedback,
//               warm_start, epsilon, seed, log_stats_every, batch_same_shapes
//   post_local_sgd  start_iter, reduce_locally
//   auto_compress   also with (HOOK|HOOK|...)
namespace lockstep::hooks {

// The built-in hooks, as make() without options gives them.
enum class Builtin {
  kAllReduce,
  kNoop,
  kFp16Compress,
  kBf16Compress,
  kQuantize,
  kSign,
  kTopK,
  kPowerSgd,
  kBatchedPowerSgd,
  kPostLocalSgd,
  kAutoCompress,
};

// Errors: UsageError for a name or an option that there is not, with the
//         nearest that there is; for a value that is none or out of range.
CommHook make(const std::string& text);
CommHook make(Builtin hook);

// The names that make() knows, in the order of the enum.
const std::vector<std::string>& names();

}  // namespace lockstep::hooks

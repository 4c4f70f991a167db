// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hook/block_codec.h"
#include "hook/bucket_memory.h"
#include "hook/lossy.h"
#include "lockstep/hook/comm_hook.h"

namespace lockstep::detail {

// The average of gradients that travel as codes: what quantize() and sign()
// have in common.
//
// Piece r of a bucket belongs to rank r. In five steps, all queued at once:
//
//   encode       every rank encodes its gradients, piece by piece
//   all_to_all   each piece goes to its rank
//   average      which decodes what came, sums, divides and encodes again
//   all_gather   the averages go to all
//   decode       every rank decodes the same words
//
// With feedback, what encoding leaves out is kept for the next step: on every
// rank its own share, on the owner of a piece also that of the averages, which
// counts `divisor` times because it will be divided once more.
//
// Threads: as for a CommHook.
class BlockExchange {
 public:
  BlockExchange(const BlockCodec& codec, bool error_feedback, uint64_t seed)
      : codec_(codec), error_feedback_(error_feedback), seed_(seed) {}

  Future<at::Tensor> run(const GradBucket& bucket, const HookContext& context);

 private:
  const BlockCodec codec_;
  const bool error_feedback_;
  const uint64_t seed_;
  BucketMemory left_out_;
  MessageWords words_;
};

// A hook that runs an exchange, which its copies share.
// Errors: UsageError when `block` is not a multiple of 64 from 64 to 65536.
CommHook make_block_hook(const char* name, int bits, int block,
                         bool error_feedback, uint64_t seed);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ddp/reduction_options.h"

namespace lockstep {

// Parameters whose gradients are averaged together, apart from the buckets,
// when one chosen gradient has come: for those that are ready long before
// others, or that should not delay them.
struct DelayedParameters {
  std::vector<std::string> names;
  std::string trigger;  // the parameter whose gradient starts it
};

// What a DistributedDataParallel may choose. All ranks choose the same; at
// construction they compare.
struct DdpOptions : ReductionOptions {
  // Before each forward in training, rank 0's buffers (running means, say)
  // replace those of the other ranks, if any rank's has changed.
  bool broadcast_buffers = true;

  // At construction compare ranks and give all of them rank 0's parameters and
  // buffers. Off: the constructor makes no collective call at all; the first
  // forward in training compares, and values are taken to be equal.
  bool init_sync = true;

  // Parameters and buffers that are left alone, by their names in the module:
  // "encoder.embedding.weight", or "scale" for one of the root.
  std::vector<std::string> ignored;

  // Parameters with sparse gradients, beside the weights of embeddings that
  // were made with sparse(true), which are known.
  std::vector<std::string> sparse;

  // Parameters that are reduced apart from the others.
  DelayedParameters delayed;

  // With unused detection, and in the first step of a static graph, outputs are
  // copies, so that the program may change them in place. Off: they are views
  // of what the module returned.
  bool clone_outputs = true;

  // Times in stats() are renewed in the first 10 iterations and then in every
  // one that is a multiple of this.
  int stats_sample_rate = 100;

  // Every so many iterations, compare all parameters bit by bit between ranks.
  // Zero: never.
  int check_replicas_every = 0;
};

}  // namespace lockstep

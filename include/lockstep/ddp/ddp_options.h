// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ddp/mixed_precision.h"
#include "lockstep/ddp/reduction_options.h"

namespace lockstep {

// Parameters whose gradients are averaged together, apart from the buckets of
// the other parameters, when the gradient of a chosen parameter has come: for
// gradients that are ready long before others, or that should not delay them.
struct DelayedParameters {
  std::vector<std::string> names;
  std::string trigger;  // the chosen parameter
};

// Options of a DistributedDataParallel. They must be equal on all ranks, which
// is checked at construction.
struct DdpOptions : ReductionOptions {
  // Before each forward in training, all ranks get rank 0's buffers (running
  // means, for instance), if a buffer has changed on any rank.
  bool broadcast_buffers = true;

  // At construction compare ranks and give all of them rank 0's parameters and
  // buffers. Off: the constructor makes no collective call at all; the first
  // forward in training compares, and values are taken to be equal.
  bool init_sync = true;

  // Parameters and buffers that are not synchronised, by their names in the
  // module: "encoder.embedding.weight", or "scale" for a parameter of the root.
  std::vector<std::string> ignored;

  // Parameters with sparse gradients. Weights of embeddings that were made with
  // sparse(true) are found without it.
  std::vector<std::string> sparse;

  // Parameters that are reduced apart from the others.
  DelayedParameters delayed;

  // With unused detection, and in the first step of a static graph, outputs are
  // copies, so that the program may change them in place. Off: they are views
  // of what the module returned.
  bool clone_outputs = true;

  // Types to compute and to communicate in.
  MixedPrecision mixed_precision;

  // Sampled times in stats() are taken in the first 10 iterations and then in
  // every iteration that is a multiple of this.
  int stats_sample_rate = 100;

  // Compare all parameters between ranks, bit by bit, in every iteration that
  // is a multiple of this. Zero: never.
  int check_replicas_every = 0;
};

}  // namespace lockstep

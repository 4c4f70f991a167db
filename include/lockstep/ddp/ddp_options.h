// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/plan/bucket_plan.h"

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
struct DdpOptions {
  // Before each forward in training, rank 0's buffers (running means, say)
  // replace those of the other ranks, if any rank's has changed.
  bool broadcast_buffers = true;

  // At construction compare ranks and give all of them rank 0's parameters and
  // buffers. Off: the constructor makes no collective call at all; the first
  // forward in training compares, and values are taken to be equal.
  bool init_sync = true;

  // How large a bucket of gradients gets; the last size repeats. A single one
  // counts for all.
  std::vector<size_t> bucket_caps_bytes = {size_t{1} << 20, size_t{25} << 20};

  // The small bucket is the one sent last instead of the first.
  bool small_bucket_last = false;

  // Given buckets of parameters, by their number among those that are reduced.
  std::optional<BucketPlan> bucket_plan;

  // Search the graph before each backward for parameters without a gradient.
  bool find_unused_parameters = false;

  // Buckets that no rank has used are not sent. Needs find_unused_parameters
  // or static_graph.
  bool skip_unused = false;

  // Gradients live in the buckets. Off: they are copied in and out.
  bool gradient_as_bucket_view = true;

  // Every step uses the same parameters, the same number of times.
  bool static_graph = false;

  // How often backward() is called after one forward.
  int backwards_per_forward = 1;

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

  // For the collectives of training; none: as the group has it.
  std::optional<Deadline::Duration> timeout;
};

}  // namespace lockstep

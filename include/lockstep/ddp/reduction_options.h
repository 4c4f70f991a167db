// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep {

// How gradients are reduced: what DdpOptions and ReducerOptions have in common.
// All ranks choose the same.
struct ReductionOptions {
  // How large a bucket gets; the last size repeats. The first one is small, so
  // that communication starts early in backward.
  std::vector<size_t> bucket_caps_bytes = {size_t{1} << 20, size_t{25} << 20};

  // The small bucket is the one sent last, behind which nothing can hide,
  // instead of the first. LOCKSTEP_SMALL_LAST_BUCKET=1 sets it too.
  bool small_bucket_last = false;

  // Buckets to use as they are, never rebuilt. A parameter is given by its
  // position among the parameters that are reduced.
  std::optional<BucketPlan> bucket_plan;

  // With find_unused_parameters gradients may come in another order from step
  // to step, so buckets are not rebuilt after the first. Given a number here,
  // they are after the first and then after every so many reductions, if the
  // order has changed.
  int rebuild_every = 0;

  // Gradients live in the buckets, so nothing is copied and they need no memory
  // of their own. Off: each gradient is copied in and out.
  bool gradient_as_bucket_view = true;

  // Before each backward, search the graph for parameters that will get no
  // gradient, and do not wait for them.
  bool find_unused_parameters = false;

  // The same parameters are used the same number of times in every step: what
  // the first step shows holds for all. Parameters may then be used several
  // times (activation checkpointing) or never, without a search.
  bool static_graph = false;

  // A bucket of which no rank uses any parameter is not sent at all. Ranks
  // agree on that at the start of backward, by a small collective that blocks.
  // For a static graph or find_unused_parameters.
  bool skip_unused = false;

  // How often backward() is called after one forward. Gradients are reduced
  // in the last of them.
  int backwards_per_forward = 1;

  // For the collectives of training; none: as the group has it.
  std::optional<Deadline::Duration> timeout;
};

}  // namespace lockstep

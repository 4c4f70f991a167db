// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/ddp/finite_check.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep {

// How gradients are reduced: the options that DdpOptions and ReducerOptions
// have in common. They must be equal on all ranks.
struct ReductionOptions {
  // The size up to which each bucket is filled; the last size repeats. The
  // first is small, so that communication starts early in backward.
  std::vector<size_t> bucket_caps_bytes = {size_t{1} << 20, size_t{25} << 20};

  // The bucket that is sent last is the small one, instead of the first: no
  // computation is left to hide it. LOCKSTEP_SMALL_LAST_BUCKET=1 sets it too.
  bool small_bucket_last = false;

  // Buckets to use instead of planned ones; they are never rebuilt. A parameter
  // is given by its position among the parameters that are reduced.
  std::optional<BucketPlan> bucket_plan;

  // With find_unused_parameters gradients may come in another order in each
  // step, so buckets are not rebuilt by default. With a number here they are
  // rebuilt after the first reduction, and then each time after this many
  // reductions, if the order has changed.
  int rebuild_every = 0;

  // Gradients are views of the buckets, so nothing is copied and they need no
  // memory of their own. Off: each gradient is copied in and out.
  bool gradient_as_bucket_view = true;

  // Before each backward, search the graph for parameters that will get no
  // gradient, and do not wait for them.
  bool find_unused_parameters = false;

  // Promises that every step uses the same parameters the same number of times
  // as the first. Parameters may then be used several times (activation
  // checkpointing) or never, without a search.
  bool static_graph = false;

  // A bucket of which no rank uses any parameter is not sent. Ranks agree on
  // this at the start of backward, by a small collective that blocks. Needs
  // static_graph or find_unused_parameters.
  bool skip_unused = false;

  // How often backward() is called after one forward. Gradients are reduced in
  // the last backward.
  int backwards_per_forward = 1;

  // Look for gradients that are infinite or NaN, as they arrive and before they
  // are summed.
  FiniteCheck check_finite = FiniteCheck::kOff;

  // Of the collectives of training. Without it, the group's timeout.
  std::optional<Deadline::Duration> timeout;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep {

// What a Reducer may choose. All ranks choose the same.
struct ReducerOptions {
  // How large a bucket gets; the last size repeats. The first one is small, so
  // that communication starts early in backward.
  std::vector<size_t> bucket_caps_bytes = {size_t{1} << 20, size_t{25} << 20};

  // The small bucket is the one sent last, behind which nothing can hide,
  // instead of the first. LOCKSTEP_SMALL_LAST_BUCKET=1 sets it too.
  bool small_bucket_last = false;

  // Given buckets: used as they are, and never rebuilt.
  std::optional<BucketPlan> bucket_plan;

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

  // By parameter: its gradient is sparse. Empty: all are dense.
  std::vector<bool> expect_sparse;

  // By parameter: what errors call it. Empty: "parameter 0" and so on.
  std::vector<std::string> names;

  // For collectives on the Reducer's lane; none: as the group has it.
  std::optional<Deadline::Duration> timeout;

  // Compare parameters and options with the other ranks at the start: one
  // small collective.
  bool verify = true;
};

}  // namespace lockstep

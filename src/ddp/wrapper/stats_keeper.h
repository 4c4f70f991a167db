// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/wrapper/model_parts.h"
#include "lockstep/ddp/ddp_options.h"
#include "lockstep/ddp/ddp_stats.h"
#include "lockstep/ddp/reducer.h"

namespace lockstep::detail {

// Keeps a DdpStats up to date: what it was made of once, times after every
// step.
class StatsKeeper {
 public:
  // Errors: UsageError for a sample rate below 1.
  StatsKeeper(const ModelParts& parts, const ProcessGroup& group,
              const DdpOptions& options);

  // The Reducer has its first buckets.
  void note_buckets(const Reducer& reducer);
  void begin_iteration(int64_t iteration) { stats_.iteration = iteration; }
  void begin_forward();
  void end_forward();
  // Takes over the times of a step that has ended since the last call.
  void note_step(const Reducer& reducer);

  DdpStats report(const Reducer* reducer) const;

 private:
  bool is_sampled(int64_t iteration) const;
  void sample();
  std::vector<size_t> bucket_bytes(const BucketPlan& plan) const;

  const int sample_rate_;
  std::vector<size_t> bytes_;  // by reduced parameter
  StepTimes::Part forward_;
  DdpStats stats_;
};

}  // namespace lockstep::detail

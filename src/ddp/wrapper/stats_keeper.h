// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/reducer/step_report.h"
#include "ddp/wrapper/model_parts.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/ddp_options.h"
#include "lockstep/ddp/ddp_stats.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep::detail {

// Keeps a DdpStats up to date: what the wrapper was made of, which is set once,
// and the times of steps.
//
//   keeper.begin_iteration(n);
//   keeper.begin_forward(), keeper.end_forward();
//   keeper.note_step(core.report());   // some time after its backward
//
// Threads: as for the wrapper, one at a time.
class StatsKeeper {
 public:
  // Errors: UsageError for a sample rate below 1.
  StatsKeeper(const ModelParts& parts, const ProcessGroup& group,
              const DdpOptions& options);

  // The first buckets among the ranks of `group` have been planned.
  void note_buckets(const ProcessGroup& group, const BucketPlan& plan);
  void begin_iteration(int64_t iteration) { stats_.iteration = iteration; }
  void begin_forward();
  void end_forward();
  // Takes the times of the last step, unless they were taken before.
  void note_step(const StepReport& steps);

  // With the Reducer's report and the plan in force.
  DdpStats report(const StepReport& steps, const BucketPlan& plan) const;
  // While there is no Reducer yet.
  const DdpStats& report() const { return stats_; }

 private:
  void note_group(const ProcessGroup& group);
  bool is_sampled(int64_t iteration) const;
  void sample();
  std::vector<size_t> bucket_bytes(const BucketPlan& plan) const;

  const int sample_rate_;
  std::vector<size_t> bytes_;  // by reduced parameter
  StepTimes::Part forward_;
  DdpStats stats_;
};

}  // namespace lockstep::detail

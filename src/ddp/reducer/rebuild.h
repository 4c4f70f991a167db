// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/ddp/reducer_options.h"
#include "lockstep/plan/bucket_plan.h"

namespace lockstep::detail {

// The order in which gradients came in a backward.
class ArrivalOrder {
 public:
  void clear() { arrivals_.clear(); }
  void add(size_t parameter) { arrivals_.push_back(parameter); }
  // All of `count` parameters, ordered by when their last gradient came; at the
  // end parameters without a gradient, the last parameter first.
  std::vector<size_t> order_of(size_t count) const;

 private:
  std::vector<size_t> arrivals_;
};

// Decides when buckets are rebuilt, and in which order: once, in the order in
// which gradients came in the first reduction; with find_unused_parameters,
// where the order may change between steps, after every `rebuild_every`
// reductions or never. It counts reductions only, so all ranks decide alike.
//
// Threads: guarded by the Reducer.
class RebuildWatch {
 public:
  // A plan that was given is never rebuilt.
  RebuildWatch(const ReducerOptions& options, bool plan_is_given);

  void start_cycle() { arrival_.clear(); }
  void add(size_t parameter) {
    if (is_watching()) arrival_.add(parameter);
  }
  // A reduction of `count` parameters has ended.
  void end_cycle(size_t count);
  // Acts as if gradients had come in this order.
  void set_seen(std::vector<size_t> order);

  bool is_due() const { return !seen_.empty(); }
  // Returns the order that was seen; a rebuild is not due any more.
  std::vector<size_t> take();
  // At least one rebuild was begun.
  bool has_rebuilt() const { return rebuilds_ > 0; }

 private:
  bool is_watching() const;

  bool is_given_;
  int64_t every_;  // reductions from one rebuild to the next; 0: one rebuild
  bool is_ever_;   // buckets are rebuilt at all
  int64_t reductions_ = 0;
  int64_t rebuilds_ = 0;
  ArrivalOrder arrival_;
  std::vector<size_t> seen_;  // empty unless a rebuild is due
};

// The buckets for parameters whose gradients come in this order.
BucketPlan plan_for(const std::vector<size_t>& order,
                    const std::vector<PlanItem>& items,
                    const ReducerOptions& options);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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
  // All of `count` parameters, each where its last gradient came; those without
  // one at the end, the late ones first.
  std::vector<size_t> order_of(size_t count) const;

 private:
  std::vector<size_t> arrivals_;
};

// The buckets for parameters that come in this order.
BucketPlan plan_for(const std::vector<size_t>& order,
                    const std::vector<PlanItem>& items,
                    const ReducerOptions& options);

// Gives all ranks the order that rank 0 has seen: it may differ from rank to
// rank, and buckets must not. A collective that blocks.
std::vector<size_t> agree_on_order(ProcessGroup& group,
                                   const std::vector<size_t>& order);

}  // namespace lockstep::detail

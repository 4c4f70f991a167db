// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/rebuild.h"

#include <algorithm>
#include <utility>

namespace lockstep::detail {

std::vector<size_t> ArrivalOrder::order_of(size_t count) const {
  std::vector<size_t> backwards;  // from the last arrival to the first
  std::vector<bool> seen(count);
  for (auto it = arrivals_.rbegin(); it != arrivals_.rend(); ++it) {
    if (!seen[*it]) backwards.push_back(*it);
    seen[*it] = true;
  }
  std::vector<size_t> order(backwards.rbegin(), backwards.rend());
  for (const size_t index : reverse_order(count)) {
    if (!seen[index]) order.push_back(index);
  }
  return order;
}

BucketPlan plan_for(const std::vector<size_t>& order,
                    const std::vector<PlanItem>& items,
                    const ReducerOptions& options) {
  return options.small_bucket_last
             ? plan_buckets_from_the_end(items, options.bucket_caps_bytes,
                                         order)
             : plan_buckets(items, options.bucket_caps_bytes, order);
}

RebuildWatch::RebuildWatch(const ReducerOptions& options, bool plan_is_given)
    : is_given_(plan_is_given),
      every_(options.find_unused_parameters && !options.static_graph
                 ? options.rebuild_every
                 : 0),
      is_ever_(!options.find_unused_parameters || options.static_graph ||
               options.rebuild_every > 0) {}

bool RebuildWatch::is_watching() const {
  if (is_given_ || !is_ever_) return false;
  if (every_ == 0) return rebuilds_ == 0;
  return reductions_ % every_ == 0;
}

void RebuildWatch::end_cycle(size_t count) {
  if (is_watching()) seen_ = arrival_.order_of(count);
  ++reductions_;
}

void RebuildWatch::set_seen(std::vector<size_t> order) {
  if (is_watching()) seen_ = std::move(order);
}

std::vector<size_t> RebuildWatch::take() {
  ++rebuilds_;
  return std::exchange(seen_, {});
}

}  // namespace lockstep::detail

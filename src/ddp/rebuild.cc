// SPDX-License-Identifier: Apache-2.0
#include "ddp/rebuild.h"

#include <algorithm>

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

std::vector<size_t> agree_on_order(ProcessGroup& group,
                                   const std::vector<size_t>& order) {
  std::vector<int64_t> words(order.begin(), order.end());
  group.broadcast(buffer_of(words), 0)->wait();
  return {words.begin(), words.end()};
}

}  // namespace lockstep::detail

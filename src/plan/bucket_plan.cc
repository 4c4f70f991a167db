// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/bucket_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Checks that `order` has each of `count` indices once.
void check_order(const std::vector<size_t>& order, size_t count) {
  LOCKSTEP_CHECK(order.size() == count, UsageError,
                 "the order has {} indices for {} parameters", order.size(),
                 count);
  std::vector<bool> seen(count);
  for (const size_t index : order) {
    LOCKSTEP_CHECK(index < count, UsageError,
                   "the order names parameter {}, and there are {}", index,
                   count);
    LOCKSTEP_CHECK(!seen[index], UsageError,
                   "the order names parameter {} twice", index);
    seen[index] = true;
  }
}

// A bucket that is being filled, and what decides its place.
struct Filling {
  BucketPlan::Bucket bucket;
  size_t bytes = 0;
  size_t last_place = 0;  // in the order, of its last item
};

// What a key is at: the bucket it fills, and which limit that one has.
struct KeyState {
  Filling open;
  size_t next_cap = 0;
};

std::vector<Filling> fill(const std::vector<PlanItem>& items,
                          const std::vector<size_t>& caps,
                          const std::vector<size_t>& order) {
  std::vector<Filling> full;
  std::map<int64_t, KeyState> keys;
  for (size_t place = 0; place < order.size(); ++place) {
    const size_t index = order[place];
    const PlanItem& item = items[index];
    if (item.sparse) {
      full.push_back({{{index}, BucketPlan::kNoCap}, item.bytes, place});
      continue;
    }
    KeyState& key = keys[item.key];
    key.open.bucket.items.push_back(index);
    key.open.bucket.cap_bytes = caps[std::min(key.next_cap, caps.size() - 1)];
    key.open.bytes += item.bytes;
    key.open.last_place = place;
    if (key.open.bytes >= key.open.bucket.cap_bytes) {
      full.push_back(std::exchange(key.open, {}));
      ++key.next_cap;
    }
  }
  for (auto& [_, key] : keys) {
    if (!key.open.bucket.items.empty()) full.push_back(std::move(key.open));
  }
  return full;
}

}  // namespace

BucketPlan plan_buckets(const std::vector<PlanItem>& items,
                        const std::vector<size_t>& caps,
                        const std::vector<size_t>& order) {
  LOCKSTEP_CHECK(!items.empty(), UsageError, "there are no parameters to plan");
  LOCKSTEP_CHECK(!caps.empty(), UsageError,
                 "the list of bucket sizes is empty");
  std::vector<size_t> by_index(items.size());
  std::iota(by_index.begin(), by_index.end(), size_t{0});
  if (!order.empty()) check_order(order, items.size());
  std::vector<Filling> full =
      fill(items, caps, order.empty() ? by_index : order);
  const auto place = [&](const Filling& one) {
    return order.empty() ? *std::min_element(one.bucket.items.begin(),
                                             one.bucket.items.end())
                         : one.last_place;
  };
  std::sort(full.begin(), full.end(), [&](const Filling& a, const Filling& b) {
    return place(a) < place(b);
  });
  BucketPlan plan;
  for (Filling& one : full) plan.buckets.push_back(std::move(one.bucket));
  return plan;
}

BucketPlan plan_buckets_from_the_end(const std::vector<PlanItem>& items,
                                     const std::vector<size_t>& caps,
                                     const std::vector<size_t>& order) {
  check_order(order, items.size());
  BucketPlan plan = plan_buckets(items, caps, {order.rbegin(), order.rend()});
  for (auto& bucket : plan.buckets) {
    std::reverse(bucket.items.begin(), bucket.items.end());
  }
  // Each was placed by its first item; what counts is its last.
  std::vector<size_t> place(items.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::sort(plan.buckets.begin(), plan.buckets.end(),
            [&](const BucketPlan::Bucket& a, const BucketPlan::Bucket& b) {
              return place[a.items.back()] < place[b.items.back()];
            });
  return plan;
}

std::vector<size_t> reverse_order(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

void check_plan(const BucketPlan& plan, const std::vector<PlanItem>& items) {
  std::vector<size_t> all;
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& members = plan.buckets[b].items;
    LOCKSTEP_CHECK(!members.empty(), UsageError, "bucket {} is empty", b);
    all.insert(all.end(), members.begin(), members.end());
  }
  check_order(all, items.size());
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& members = plan.buckets[b].items;
    for (const size_t index : members) {
      LOCKSTEP_CHECK(!items[index].sparse || members.size() == 1, UsageError,
                     "bucket {} has {} parameters, and parameter {} has a "
                     "sparse gradient, which must be alone",
                     b, members.size(), index);
      LOCKSTEP_CHECK(items[index].key == items[members[0]].key, UsageError,
                     "bucket {} mixes parameters {} and {}, which differ in "
                     "type or device",
                     b, members[0], index);
    }
  }
}

}  // namespace lockstep

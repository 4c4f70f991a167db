// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

// Which gradients travel together: a pure function from sizes to indices.
//
//   const std::vector<PlanItem> items = ...;       // one per parameter
//   const BucketPlan plan =
//       plan_buckets(items, {1 << 20, 25 << 20}, reverse_order(items.size()));
//
// Threads: values and pure functions.
// Errors:  UsageError names what does not fit.
namespace lockstep {

// A parameter, as far as planning is concerned.
struct PlanItem {
  size_t bytes = 0;
  // Parameters share a bucket only when their keys are equal: the key stands
  // for element type and device.
  int64_t key = 0;
  // Its gradient is sparse, so it has a bucket of its own.
  bool sparse = false;
};

// Which parameters (by index) are in which bucket, in the order in which
// buckets are reduced.
struct BucketPlan {
  static constexpr size_t kNoCap = std::numeric_limits<size_t>::max();

  struct Bucket {
    std::vector<size_t> items;
    size_t cap_bytes = kNoCap;  // the limit it was filled up to

    bool operator==(const Bucket& other) const {
      return items == other.items && cap_bytes == other.cap_bytes;
    }
  };
  std::vector<Bucket> buckets;

  bool operator==(const BucketPlan& other) const {
    return buckets == other.buckets;
  }
  bool operator!=(const BucketPlan& other) const { return !(*this == other); }
};

// Fills buckets with the items in turn. An item joins the open bucket of its
// key, and closes it when its bytes have reached the limit: a bucket may exceed
// its limit by a part of its last item, and one huge item is a bucket alone.
// The first bucket of each key has the first limit of `caps`, the second the
// second; the last limit repeats.
//
// Without `order` the items come by index, and buckets are sorted by their
// smallest one. With an order (each index once) buckets are sorted by when
// their last item comes in it, which is when they can be sent.
BucketPlan plan_buckets(const std::vector<PlanItem>& items,
                        const std::vector<size_t>& caps,
                        const std::vector<size_t>& order = {});

// The same, filled from the other end: the *last* bucket has the first limit.
// What is sent last cannot hide behind anything, so it may pay to keep it
// small.
BucketPlan plan_buckets_from_the_end(const std::vector<PlanItem>& items,
                                     const std::vector<size_t>& caps,
                                     const std::vector<size_t>& order);

// count-1, ..., 1, 0: parameters that come late in a module get their gradients
// early in backward.
std::vector<size_t> reverse_order(size_t count);

// Checks that `plan` has each of the items once, no empty bucket, one key per
// bucket, and sparse items alone. Errors: UsageError.
void check_plan(const BucketPlan& plan, const std::vector<PlanItem>& items);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/bucket_queue.h"

#include <algorithm>

namespace lockstep::detail {

void BucketQueue::set(BucketPlan plan, Buckets buckets) {
  size_t parameters = 0;
  for (const auto& bucket : plan.buckets) parameters += bucket.items.size();
  places_.resize(parameters);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& items = plan.buckets[b].items;
    for (size_t i = 0; i < items.size(); ++i) places_[items[i]] = {b, i};
  }
  plan_ = std::move(plan);
  buckets_ = std::move(buckets);
  next_ = buckets_.size();
}

void BucketQueue::start_cycle() {
  next_ = 0;
  for (const auto& bucket : buckets_) bucket->expect_all();
}

void BucketQueue::set_used(const std::vector<bool>& used) {
  for (const auto& bucket : buckets_) {
    std::vector<bool> members;
    for (const Member& member : bucket->members()) {
      members.push_back(used[member.index]);
    }
    bucket->set_used(std::move(members));
  }
}

bool BucketQueue::arrive(size_t parameter, bool is_unused) {
  const Place place = places_[parameter];
  return buckets_[place.bucket]->arrive(place.position, is_unused);
}

}  // namespace lockstep::detail

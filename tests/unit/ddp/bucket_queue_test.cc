// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/bucket_queue.h"

#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Moves nothing.
class FakeBucket : public Bucket {
 public:
  using Bucket::Bucket;
  size_t bytes() const override { return 0; }
  void clear() override {}
  void finish(const at::Tensor& /*result*/,
              const IsUsed& /*is_used*/) override {}

 private:
  void take(size_t /*position*/, bool /*is_unused*/) override {}
  GradBucket make_view(size_t index, size_t count) const override {
    return {index, count, {}, std::make_shared<GradBucket::Contents>()};
  }
};

// Parameters 3 and 1 in bucket 0, 2 in bucket 1, 0 in bucket 2.
class BucketQueueTest : public ::testing::Test {
 protected:
  BucketQueueTest() {
    BucketPlan plan;
    plan.buckets = {{{3, 1}}, {{2}}, {{0}}};
    BucketQueue::Buckets buckets;
    for (const auto& bucket : plan.buckets) {
      std::vector<Member> members;
      for (const size_t index : bucket.items)
        members.push_back({index, {}, ""});
      buckets.push_back(
          std::make_unique<FakeBucket>(std::move(members), access_));
    }
    queue_.set(std::move(plan), std::move(buckets));
    queue_.start_cycle();
  }

  void arrive(size_t parameter) {
    std::unique_lock lock(mutex_);
    if (!queue_.arrive(parameter, false)) return;
    queue_.launch_ready(lock, [&](const Bucket&, size_t index) {
      launched_.push_back(index);
      if (in_launch_) in_launch_(index);
      return make_future([] { return at::Tensor(); });
    });
  }

  const GradAccess access_;
  BucketQueue queue_;
  std::mutex mutex_;
  std::vector<size_t> launched_;
  std::function<void(size_t)> in_launch_;
};

TEST_F(BucketQueueTest, LaunchesInOrderWhateverArrivesFirst) {
  arrive(0);
  arrive(2);
  EXPECT_THAT(launched_, IsEmpty());
  arrive(1);
  EXPECT_THAT(launched_, IsEmpty());
  arrive(3);
  EXPECT_THAT(launched_, ElementsAre(0, 1, 2));
  EXPECT_TRUE(queue_.are_all_launched());
}

TEST_F(BucketQueueTest, TheThreadThatLaunchesSeesWhatArrivesMeanwhile) {
  in_launch_ = [&](size_t index) {
    if (index != 0) return;
    EXPECT_TRUE(queue_.is_launching());
    std::thread([&] { arrive(2); }).join();  // the lock is free
    EXPECT_THAT(launched_, ElementsAre(0));
  };
  arrive(3);
  arrive(1);
  EXPECT_THAT(launched_, ElementsAre(0, 1));
  EXPECT_FALSE(queue_.is_launching());
  EXPECT_FALSE(queue_.are_all_launched());
}

TEST_F(BucketQueueTest, KnowsTheBucketOfAParameter) {
  EXPECT_EQ(&queue_.bucket_of(1), &queue_[0]);
  EXPECT_EQ(&queue_.bucket_of(0), &queue_[2]);
}

TEST_F(BucketQueueTest, WhatNobodyUsesIsSkippedForOneCycle) {
  queue_.set_used({true, true, false, true});
  EXPECT_FALSE(queue_[0].view(0, 3).is_skipped());
  EXPECT_TRUE(queue_[1].view(1, 3).is_skipped());
  EXPECT_FALSE(queue_[1].view(1, 3).is_used(0));
  queue_.start_cycle();
  EXPECT_FALSE(queue_[1].view(1, 3).is_skipped());
}

TEST_F(BucketQueueTest, ANewCycleBeginsWithBucketZero) {
  for (const size_t parameter : {0, 1, 2, 3}) arrive(parameter);
  queue_.start_cycle();
  EXPECT_FALSE(queue_.are_all_launched());
  launched_.clear();
  for (const size_t parameter : {3, 1}) arrive(parameter);
  EXPECT_THAT(launched_, ElementsAre(0));
}

}  // namespace
}  // namespace lockstep::detail

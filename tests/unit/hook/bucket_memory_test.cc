// SPDX-License-Identifier: Apache-2.0
#include "hook/bucket_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/hook/hook_buckets.h"

namespace lockstep::detail {
namespace {

using lockstep::testing::make_bucket;
using lockstep::testing::message_of;
using ::testing::HasSubstr;

TEST(BucketMemory, IsZeroAtFirstAndThenWhatWasLeftThere) {
  BucketMemory memory;
  const GradBucket bucket = make_bucket(0, 1, {{0, 3}, {1, 2}});
  EXPECT_TRUE(at::equal(memory.of(bucket), at::zeros({5})));
  memory.of(bucket).fill_(7);
  EXPECT_TRUE(at::equal(memory.of(bucket), at::full({5}, 7.F)));
  memory.clear();
  EXPECT_TRUE(at::equal(memory.of(bucket), at::zeros({5})));
}

TEST(BucketMemory, MovesWithParametersWhenBucketsAreRebuilt) {
  BucketMemory memory;
  memory.of(make_bucket(0, 2, {{0, 3}, {1, 2}})).copy_(at::arange(5));
  memory.of(make_bucket(1, 2, {{2, 1}})).fill_(9);
  const auto second = memory.of(make_bucket(1, 2, {{1, 2}, {0, 3}}));
  EXPECT_TRUE(at::equal(second, at::tensor({3.F, 4.F, 0.F, 1.F, 2.F})));
  const auto first = memory.of(make_bucket(0, 2, {{2, 1}}));
  EXPECT_TRUE(at::equal(first, at::tensor({9.F})));
}

// A bucket that was not kept before takes over the parameter of one that was.
TEST(BucketMemory, MovesToABucketThatIsNew) {
  BucketMemory memory;
  memory.of(make_bucket(0, 2, {{0, 2}, {1, 1}})).fill_(4);
  const auto moved = memory.of(make_bucket(1, 2, {{0, 2}}));
  EXPECT_TRUE(at::equal(moved, at::full({2}, 4.F)));
  const auto rest = memory.of(make_bucket(0, 2, {{1, 1}}));
  EXPECT_TRUE(at::equal(rest, at::full({1}, 4.F)));
}

TEST(BucketMemory, IsSavedAndLoadedByParameter) {
  BucketMemory memory;
  memory.of(make_bucket(0, 1, {{0, 3}, {1, 2}})).copy_(at::arange(5));
  BucketMemory other;
  other.load(memory.save());
  memory.clear();
  const auto loaded = other.of(make_bucket(0, 1, {{1, 2}, {0, 3}}));
  EXPECT_TRUE(at::equal(loaded, at::tensor({3.F, 4.F, 0.F, 1.F, 2.F})));
}

TEST(BucketMemory, RefusesWhatBelongsToAnotherModel) {
  BucketMemory memory;
  memory.load({{0, at::ones({4})}});
  EXPECT_THAT(message_of<UsageError>([&] {
                memory.of(make_bucket(0, 1, {{0, 3}}));
              }),
              HasSubstr("another model"));
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/plan/bucket_plan.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using Indices = std::vector<size_t>;

constexpr int64_t kFloat = 1;
constexpr int64_t kDouble = 2;

PlanItem floats(size_t count) { return {count * 4, kFloat, false}; }
PlanItem doubles(size_t count) { return {count * 8, kDouble, false}; }

std::vector<Indices> members(const BucketPlan& plan) {
  std::vector<Indices> all;
  for (const auto& bucket : plan.buckets) all.push_back(bucket.items);
  return all;
}

std::vector<size_t> caps_of(const BucketPlan& plan) {
  std::vector<size_t> all;
  for (const auto& bucket : plan.buckets) all.push_back(bucket.cap_bytes);
  return all;
}

std::vector<PlanItem> alternating() {
  return {floats(50),  doubles(25), floats(50),
          doubles(25), floats(50),  doubles(25)};
}

TEST(BucketPlan, ClosesABucketWhenItsLimitIsReached) {
  const std::vector<PlanItem> items = {floats(100), floats(200), floats(100),
                                       floats(50)};
  EXPECT_THAT(members(plan_buckets(items, {400})),
              ElementsAre(Indices{0}, Indices{1}, Indices{2}, Indices{3}));
}

TEST(BucketPlan, KeepsTypesApart) {
  EXPECT_THAT(
      members(plan_buckets(alternating(), {400})),
      ElementsAre(Indices{0, 2}, Indices{1, 3}, Indices{4}, Indices{5}));
}

TEST(BucketPlan, TheLastLimitRepeats) {
  const std::vector<PlanItem> items(4, floats(10));
  const BucketPlan plan = plan_buckets(items, {40, 80});
  EXPECT_THAT(members(plan),
              ElementsAre(Indices{0}, Indices{1, 2}, Indices{3}));
  EXPECT_THAT(caps_of(plan), ElementsAre(40, 80, 80));
}

TEST(BucketPlan, EachTypeWalksTheLimitsOnItsOwn) {
  const BucketPlan plan = plan_buckets(alternating(), {200, 400});
  EXPECT_THAT(members(plan), ElementsAre(Indices{0}, Indices{1}, Indices{2, 4},
                                         Indices{3, 5}));
}

TEST(BucketPlan, ASparseParameterIsAlone) {
  const std::vector<PlanItem> items = {
      floats(1), {400, kFloat, true}, floats(1)};
  const BucketPlan plan = plan_buckets(items, {400});
  EXPECT_THAT(members(plan), ElementsAre(Indices{0, 2}, Indices{1}));
  EXPECT_THAT(caps_of(plan), ElementsAre(400, BucketPlan::kNoCap));
}

TEST(BucketPlan, AHugeParameterIsABucket) {
  const std::vector<PlanItem> items = {floats(1), floats(1000), floats(1)};
  EXPECT_THAT(members(plan_buckets(items, {100})),
              ElementsAre(Indices{0, 1}, Indices{2}));
}

TEST(BucketPlan, PutsLateParametersFirst) {
  const std::vector<PlanItem> items(4, floats(10));
  EXPECT_THAT(members(plan_buckets(items, {40, 80}, reverse_order(4))),
              ElementsAre(Indices{3}, Indices{2, 1}, Indices{0}));
}

// A bucket that never fills up is sent when its last gradient is there, not
// after all others.
TEST(BucketPlan, AGivenOrderDecidesWhenABucketGoes) {
  const std::vector<PlanItem> items = {floats(10), doubles(1), floats(10),
                                       floats(10)};
  EXPECT_THAT(members(plan_buckets(items, {80}, {0, 1, 2, 3})),
              ElementsAre(Indices{1}, Indices{0, 2}, Indices{3}));
}

TEST(BucketPlan, FromTheEndTheLastBucketIsTheSmallOne) {
  const std::vector<PlanItem> items(5, floats(10));
  const BucketPlan plan =
      plan_buckets_from_the_end(items, {40, 80}, {0, 1, 2, 3, 4});
  EXPECT_THAT(members(plan),
              ElementsAre(Indices{0, 1}, Indices{2, 3}, Indices{4}));
  EXPECT_THAT(caps_of(plan), ElementsAre(80, 80, 40));
}

TEST(BucketPlan, RefusesWhatIsNoOrder) {
  const std::vector<PlanItem> items(2, floats(1));
  const auto text = [&](const Indices& order) {
    return message_of<UsageError>([&] { plan_buckets(items, {1}, order); });
  };
  EXPECT_THAT(text({0}), HasSubstr("1 indices for 2 parameters"));
  EXPECT_THAT(text({0, 0}), HasSubstr("parameter 0 twice"));
  EXPECT_THAT(text({0, 7}), HasSubstr("parameter 7"));
  EXPECT_THAT(message_of<UsageError>([&] { plan_buckets(items, {}); }),
              HasSubstr("list of bucket sizes is empty"));
  EXPECT_THAT(message_of<UsageError>([&] { plan_buckets({}, {1}); }),
              HasSubstr("no parameters"));
}

TEST(BucketPlan, AGivenPlanIsChecked) {
  const std::vector<PlanItem> items = {
      floats(1), doubles(1), {4, kFloat, true}};
  const auto text = [&](const std::vector<Indices>& buckets) {
    BucketPlan plan;
    for (const Indices& one : buckets) plan.buckets.push_back({one, 1});
    return message_of<UsageError>([&] { check_plan(plan, items); });
  };
  EXPECT_THAT(text({{0}, {}, {1}, {2}}), HasSubstr("bucket 1 is empty"));
  EXPECT_THAT(text({{0, 1}, {2}}), HasSubstr("differ in type"));
  EXPECT_THAT(text({{0, 2}, {1}}), HasSubstr("sparse gradient"));
  EXPECT_THAT(text({{0}, {1}}), HasSubstr("2 indices for 3 parameters"));
  BucketPlan good;
  good.buckets = {{{2}, 1}, {{1}, 1}, {{0}, 1}};
  check_plan(good, items);
}

// For any sizes and any order: a plan is valid, its buckets go in the order in
// which they fill, and none but the last of a key is below its limit.
TEST(BucketPlan, HoldsForAnyInput) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  for (int round = 0; round < 500; ++round) {
    std::vector<PlanItem> items(1 + below(30));
    for (PlanItem& item : items) {
      item = {below(100), static_cast<int64_t>(below(3)), below(8) == 0};
    }
    std::vector<size_t> caps(1 + below(3));
    for (size_t& cap : caps) cap = 1 + below(200);
    Indices order(items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Indices place(items.size());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;

    for (const BucketPlan& plan :
         {plan_buckets(items, caps, order),
          plan_buckets_from_the_end(items, caps, order)}) {
      check_plan(plan, items);
      size_t last = 0;
      for (const auto& bucket : plan.buckets) {
        EXPECT_TRUE(std::is_sorted(
            bucket.items.begin(), bucket.items.end(),
            [&](size_t a, size_t b) { return place[a] < place[b]; }));
        EXPECT_GE(place[bucket.items.back()], last);
        last = place[bucket.items.back()];
      }
    }
    EXPECT_EQ(plan_buckets(items, caps, order),
              plan_buckets(items, caps, order));
  }
}

}  // namespace
}  // namespace lockstep

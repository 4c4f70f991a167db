// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/rebuild.h"

#include <gmock/gmock.h>

#include "lockstep/ddp/reducer.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using testing::on_ranks;
using testing::SharedGroup;
using testing::Tensors;

void run_cycle(RebuildWatch& watch, const std::vector<size_t>& arrivals) {
  watch.start_cycle();
  for (const size_t one : arrivals) watch.add(one);
  watch.end_cycle(3);
}

TEST(RebuildWatch, IsDueOnceAfterTheFirstReduction) {
  RebuildWatch watch({}, false);
  EXPECT_FALSE(watch.is_due());
  run_cycle(watch, {1, 0, 2});
  ASSERT_TRUE(watch.is_due());
  EXPECT_FALSE(watch.has_rebuilt());
  EXPECT_THAT(watch.take(), ElementsAre(1, 0, 2));
  EXPECT_TRUE(watch.has_rebuilt());
  run_cycle(watch, {2, 1, 0});
  EXPECT_FALSE(watch.is_due());
}

TEST(RebuildWatch, AGivenPlanStays) {
  RebuildWatch watch({}, true);
  run_cycle(watch, {1, 0, 2});
  EXPECT_FALSE(watch.is_due());
}

TEST(RebuildWatch, WithASearchItIsDueEverySoManyReductions) {
  ReducerOptions options;
  options.find_unused_parameters = true;
  RebuildWatch never(options, false);
  run_cycle(never, {1, 0, 2});
  EXPECT_FALSE(never.is_due());
  options.rebuild_every = 3;
  RebuildWatch watch(options, false);
  std::vector<int> due;
  for (int i = 0; i < 7; ++i) {
    run_cycle(watch, {2, 0});
    if (!watch.is_due()) continue;
    due.push_back(i);
    EXPECT_THAT(watch.take(), ElementsAre(2, 0, 1));  // the unused one last
  }
  EXPECT_THAT(due, ElementsAre(0, 3, 6));
}

// Rank 0 is late, and nobody waits for it before the end of forward.
TEST(Rebuild, TravelsWhileForwardRuns) {
  std::atomic<bool> is_prepared{false};
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = testing::some_parameters(3);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    Reducer reducer(parameters, group, options);
    const auto forward = [&] {
      return (at::ones({4}) * parameters[1] * parameters[2] * parameters[0])
          .sum();
    };
    at::Tensor loss = forward();
    reducer.prepare_for_backward({loss});
    loss.backward();
    const BucketPlan before = reducer.bucket_plan();
    if (group->rank() == 0) {
      EXPECT_TRUE(testing::eventually([&] { return is_prepared.load(); }));
    }
    reducer.prepare_for_forward();
    if (group->rank() == 1) is_prepared = true;
    EXPECT_EQ(reducer.bucket_plan(), before);
    loss = forward();
    reducer.prepare_for_backward({loss});
    EXPECT_NE(reducer.bucket_plan(), before);
    testing::clear_gradients(parameters);
    loss.backward();
    EXPECT_TRUE(testing::is_all(parameters[0].grad(), 1));
  });
}

TEST(Rebuild, FollowsTheOrderAgainAndAgainWithASearch) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = testing::some_parameters(3);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    options.find_unused_parameters = true;
    options.rebuild_every = 2;
    Reducer reducer(parameters, group, options);
    std::vector<size_t> first;
    for (size_t i = 0; i < 6; ++i) {
      reducer.prepare_for_forward();
      // The last factor's gradient comes first; from step 2 on it is another.
      const size_t last = i < 2 ? 0 : 1;
      at::Tensor x = at::ones({4});
      for (size_t p = 0; p < 3; ++p) {
        if (p != last) x = x * parameters[p];
      }
      const at::Tensor loss = (x * parameters[last]).sum();
      reducer.prepare_for_backward({loss});
      first.push_back(reducer.bucket_plan().buckets[0].items[0]);
      loss.backward();
      EXPECT_TRUE(
          testing::is_all(parameters[2].grad(), static_cast<double>(i + 1)));
    }
    // As planned; after steps 0, 2 and 4 the order is looked at.
    EXPECT_THAT(first, ElementsAre(2, 0, 0, 1, 1, 1));
  });
}

TEST(SetBucketPlan, TakesOverBetweenStepsByIndexOrTensor) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = testing::some_parameters(3);
    Reducer reducer(parameters, group);
    testing::step(reducer, parameters, group->rank());
    int changes = 0;
    reducer.on_plan_change(
        [&](const BucketPlan& before, const BucketPlan& after) {
          EXPECT_EQ(before.buckets.size(), changes == 0 ? 1U : 3U);
          EXPECT_EQ(after.buckets.size(), changes == 0 ? 3U : 2U);
          ++changes;
        });
    EXPECT_THROW(
        reducer.on_plan_change(std::function<void(const BucketPlan&)>()),
        UsageError);
    BucketPlan plan;
    plan.buckets = {{{1}}, {{0}}, {{2}}};
    reducer.set_bucket_plan(plan);
    testing::step(reducer, parameters, group->rank());
    EXPECT_EQ(reducer.bucket_plan(), plan);  // and it is not rebuilt
    reducer.set_bucket_plan({{parameters[2], parameters[0]}});
    testing::step(reducer, parameters, group->rank());
    EXPECT_EQ(changes, 2);
    EXPECT_TRUE(testing::is_all(parameters[0].grad(), 3 * testing::mean_of(2)));
    plan.buckets = {{{1}}};
    EXPECT_THROW(reducer.set_bucket_plan(plan), UsageError);
  });
}

TEST(SetBucketPlan, RanksMustGiveTheSame) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = testing::some_parameters(2);
    Reducer reducer(parameters, group);
    BucketPlan plan;
    plan.buckets = {{{0}}, {{1}}};
    if (group->rank() == 1) std::swap(plan.buckets[0], plan.buckets[1]);
    EXPECT_THROW(reducer.set_bucket_plan(plan), MismatchError);
  });
}

}  // namespace
}  // namespace lockstep::detail

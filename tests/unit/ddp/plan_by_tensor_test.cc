// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/plan_by_tensor.h"

#include <gmock/gmock.h>

#include "ddp/reducer/check_parameters.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using testing::parameter;
using testing::Tensors;

std::vector<std::vector<size_t>> items_of(const BucketPlan& plan) {
  std::vector<std::vector<size_t>> items;
  for (const auto& bucket : plan.buckets) items.push_back(bucket.items);
  return items;
}

TEST(PlanByTensor, KeepsTheGivenBucketsAndTheirOrder) {
  const Tensors all = testing::some_parameters(4);
  const ParameterSet set = make_parameter_set(all, {});
  EXPECT_THAT(
      items_of(plan_by_tensor({{all[3], all[1]}, {all[0], all[2]}}, set)),
      ElementsAre(ElementsAre(3, 1), ElementsAre(0, 2)));
}

TEST(PlanByTensor, LeavesOutStrangersAndSecondMentions) {
  const Tensors all = testing::some_parameters(2);
  const ParameterSet set = make_parameter_set(all, {});
  EXPECT_THAT(items_of(plan_by_tensor(
                  {{at::ones({1})}, {all[1], all[1]}, {all[1], all[0]}}, set)),
              ElementsAre(ElementsAre(1), ElementsAre(0)));
}

TEST(PlanByTensor, SplitsBucketsByTypeAndPutsTheRestLast) {
  const Tensors all = {parameter({2}), parameter({2}, at::kDouble),
                       parameter({2}), parameter({2}), parameter({2})};
  ReducerOptions options;
  options.expect_sparse = {false, false, true, false, false};
  const ParameterSet set = make_parameter_set(all, options);
  const BucketPlan plan = plan_by_tensor({{all[0], all[1], all[2]}}, set);
  EXPECT_THAT(items_of(plan), ElementsAre(ElementsAre(0), ElementsAre(1),
                                          ElementsAre(2), ElementsAre(4, 3)));
  check_plan(plan, set.items);
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// What a communication hook is given: its context and its bucket.
#include "lockstep/hook/hook_context.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

TEST(HookContext, ComesWithLaneDivisorAndIteration) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    std::vector<int64_t> iterations;
    std::vector<int> divisors;
    reducer.register_comm_hook(
        [&](const GradBucket& bucket, const HookContext& context) {
          EXPECT_EQ(context.group(), reducer.group());
          EXPECT_EQ(context.lane("other"), reducer.lane("other"));
          iterations.push_back(context.iteration());
          divisors.push_back(context.divisor());
          return hooks::all_reduce()(bucket, context);
        });
    step(reducer, parameters, group->rank());
    reducer.set_divisor(1);
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 3));  // a sum
    EXPECT_THAT(iterations, ElementsAre(0, 1));
    EXPECT_THAT(divisors, ElementsAre(2, 1));
  });
}

TEST(HookContext, OneWithoutAReducerHasNoFurtherLanes) {
  on_ranks(1, [](const SharedGroup& group) {
    const HookContext context(group, 1, 0, nullptr);
    EXPECT_EQ(context.group(), group);
    EXPECT_THAT(
        message_of<UsageError>([&] { context.lane("steps"); }),
        AllOf(HasSubstr("'steps'"), HasSubstr("Reducer::hook_context()")));
  });
}

TEST(GradBucket, TellsWhereParametersAreInItsBuffer) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = {parameter({2, 3}), parameter({4})};
    Reducer reducer(parameters, group);
    const GradBucket bucket = reducer.grad_buckets()[0];
    ASSERT_EQ(bucket.members().size(), 2U);
    EXPECT_EQ(bucket.members()[0].index, 1U);
    EXPECT_EQ(bucket.members()[1].offset, 4);
    EXPECT_EQ(bucket.members()[1].length, 6);
    EXPECT_TRUE(bucket.is_used(0));
    EXPECT_FALSE(bucket.is_skipped());
    const at::Tensor elsewhere = at::arange(10, at::kFloat);
    const auto views = bucket.gradients_of(elsewhere);
    EXPECT_EQ(views[1].sizes(), at::IntArrayRef({2, 3}));
    EXPECT_EQ(views[1][1][2].item<float>(), 9);
    elsewhere.zero_();
    EXPECT_TRUE(is_all(views[0], 0));
    EXPECT_THAT(
        message_of<UsageError>([&] { bucket.gradients_of(at::ones({3})); }),
        HasSubstr("10 elements"));
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/finite_watch.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::finite {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace lockstep::testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ReducerOptions checking(FiniteCheck check) {
  ReducerOptions options;
  options.bucket_caps_bytes = {16};
  options.names = {"a", "b", "c"};
  options.check_finite = check;
  return options;
}

// A step in which the gradients of one parameter are infinite on one rank.
void bad_step(Reducer& reducer, const Tensors& parameters, int rank,
              int bad_rank, size_t bad_parameter) {
  reducer.prepare_for_forward();
  at::Tensor loss = loss_of(parameters, rank + 1);
  if (rank == bad_rank) {
    loss = loss + (parameters[bad_parameter][2] * kInfinity);
  }
  reducer.prepare_for_backward({loss});
  loss.backward();
}

TEST(FiniteWatch, SeesGradientsOfAllLayouts) {
  const auto is_found = [](const at::Tensor& gradient) {
    detail::FiniteWatch watch(FiniteCheck::kError);
    watch.start_cycle();
    try {
      watch.look_at(gradient, 0, 0, "w");
    } catch (const UsageError&) {
      return true;
    }
    return false;
  };
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor values = at::ones({3, 4}).to(type);
    EXPECT_FALSE(is_found(values));
    EXPECT_FALSE(is_found(values.t()));
    EXPECT_FALSE(is_found(values.to_sparse()));
    values[1][2] = -kInfinity;
    EXPECT_TRUE(is_found(values));
    EXPECT_TRUE(is_found(values.t()));
    EXPECT_TRUE(is_found(values.narrow(1, 1, 2)));
    EXPECT_FALSE(is_found(values.narrow(1, 0, 2)));
    EXPECT_TRUE(is_found(values.to_sparse()));
  }
  EXPECT_FALSE(is_found(at::Tensor()));
  EXPECT_FALSE(is_found(at::ones({2}, at::kInt)));
}

TEST(FiniteCheck, AnErrorNamesRankBucketAndParameterOnAllRanks) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, checking(FiniteCheck::kError));
    group->barrier()->wait();
    std::string text;
    try {
      bad_step(reducer, parameters, group->rank(), 1, 1);
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_THAT(text, AllOf(HasSubstr("rank 1"), HasSubstr("1 ('b')"),
                            HasSubstr("bucket 1"), HasSubstr("element 2")))
        << group->rank();
  });
}

TEST(FiniteCheck, AVerdictIsTheSameOnAllRanksAndTrainingGoesOn) {
  on_ranks(3, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, checking(FiniteCheck::kVerdict));
    step(reducer, parameters, group->rank());
    EXPECT_FALSE(reducer.non_finite());
    clear_gradients(parameters);
    bad_step(reducer, parameters, group->rank(), 2, 0);
    const auto bad = reducer.non_finite();
    ASSERT_TRUE(bad);
    EXPECT_EQ(bad->rank, 2);
    EXPECT_EQ(bad->parameter, 0U);
    EXPECT_EQ(bad->name, "a");
    EXPECT_EQ(bad->bucket, 2U);
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_FALSE(reducer.non_finite());
    EXPECT_TRUE(is_all(parameters[0].grad(), mean_of(3)));
  });
}

// Two ranks, two parameters: the bucket that is sent first counts.
TEST(FiniteCheck, TheFirstIsNamedByBucketAndThenByRank) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, checking(FiniteCheck::kVerdict));
    const int rank = group->rank();
    bad_step(reducer, parameters, rank, rank, rank == 0 ? 0 : 2);
    ASSERT_TRUE(reducer.non_finite());
    EXPECT_EQ(reducer.non_finite()->rank, 1);
    EXPECT_EQ(reducer.non_finite()->name, "c");
    clear_gradients(parameters);
    bad_step(reducer, parameters, rank, rank, 1);
    EXPECT_EQ(reducer.non_finite()->rank, 0);
  });
}

}  // namespace
}  // namespace lockstep::finite

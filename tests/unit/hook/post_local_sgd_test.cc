// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/post_local_sgd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "parity/parity_kinds.h"
#include "support/message_of.h"
#include "support/rank_team.h"
#include "unit/hook/told_gradients.h"

namespace lockstep {
namespace {

using hooks::post_local_sgd;
using hooks::PostLocalSgdOptions;
using ::testing::HasSubstr;
using namespace testing;

PostLocalSgdOptions local_from(int64_t start, SharedGroup subgroup = nullptr) {
  PostLocalSgdOptions options;
  options.start_iter = start;
  options.subgroup = std::move(subgroup);
  return options;
}

// All elements of rank r's gradients are r + 1.
Tensors own_gradients(const SharedGroup& group) {
  return {at::full({3, 4}, group->rank() + 1.0),
          at::full({5}, group->rank() + 1.0)};
}

ReducerOptions bucket_each() {
  ReducerOptions options;
  options.bucket_caps_bytes = {1};
  return options;
}

TEST(PostLocalSgd, AveragesAmongPairsAfterTheStart) {
  on_ranks(4, [](const SharedGroup& group) {
    const SharedGroup pair = group->split(group->rank() / 2);
    ToldRank rank(parameters_of({{3, 4}, {5}}), group,
                  post_local_sgd(local_from(2, pair)), bucket_each());
    for (int step = 0; step < 6; ++step) {
      const double expected = step < 2 ? 2.5 : (group->rank() < 2 ? 1.5 : 3.5);
      for (const at::Tensor& one : rank.step(own_gradients(group))) {
        EXPECT_TRUE(is_all(one, expected)) << step;
      }
    }
  });
}

TEST(PostLocalSgd, TheDefaultAreTheRanksOfThisHost) {
  on_ranks(3, [](const SharedGroup& group) {
    ToldRank rank(parameters_of({{3, 4}, {5}}), group,
                  post_local_sgd(local_from(1)), bucket_each());
    for (int step = 0; step < 4; ++step) {
      for (const at::Tensor& one : rank.step(own_gradients(group))) {
        EXPECT_TRUE(is_all(one, 2)) << step;
      }
    }
  });
}

TEST(PostLocalSgd, WithoutLocalReductionRanksKeepTheirOwn) {
  on_ranks(2, [](const SharedGroup& group) {
    PostLocalSgdOptions options = local_from(2);
    options.reduce_locally = false;
    ToldRank rank(parameters_of({{3, 4}, {5}}), group, post_local_sgd(options));
    for (int step = 0; step < 4; ++step) {
      const double expected = step < 2 ? 1.5 : group->rank() + 1;
      EXPECT_TRUE(is_all(rank.step(own_gradients(group))[0], expected)) << step;
    }
  });
}

// Divided by half the number of ranks, an average is twice as large.
TEST(PostLocalSgd, ADivisorCountsInSubgroupsToo) {
  on_ranks(4, [](const SharedGroup& group) {
    const SharedGroup pair = group->split(group->rank() / 2);
    ToldRank rank(parameters_of({{3, 4}, {5}}), group,
                  post_local_sgd(local_from(1, pair)));
    for (int step = 0; step < 3; ++step) {
      rank.reducer->set_divisor(2);
      const double expected = step < 1 ? 5 : (group->rank() < 2 ? 3 : 7);
      EXPECT_TRUE(is_all(rank.step(own_gradients(group))[0], expected)) << step;
    }
  });
}

TEST(PostLocalSgd, SparseGradientsAreAveragedAmongPairs) {
  on_ranks(4, [](const SharedGroup& group) {
    const SharedGroup pair = group->split(group->rank() / 2);
    const Tensors parameters = {parameter({9, 2})};
    ReducerOptions options;
    options.expect_sparse = {true};
    Reducer reducer(parameters, group, options);
    reducer.register_comm_hook(post_local_sgd(local_from(0, pair)));
    const at::Tensor row = at::embedding(
        parameters[0], at::tensor({int64_t{group->rank()}}), -1, false, true);
    reducer.prepare_for_forward();
    const at::Tensor loss = row.sum();
    reducer.prepare_for_backward({loss});
    loss.backward();
    const at::Tensor expected = at::zeros({9, 2});
    expected.narrow(0, group->rank() / 2 * 2, 2).fill_(0.5);
    EXPECT_TRUE(at::equal(parameters[0].grad().to_dense(), expected));
  });
}

// What the header tells programs to do.
TEST(PostLocalSgd, AveragingParametersMakesReplicasEqualAgain) {
  on_ranks(4, [](const SharedGroup& group) {
    const SharedGroup pair = group->split(group->rank() / 2);
    ToldRank rank(parameters_of({{3, 4}, {5}}), group,
                  post_local_sgd(local_from(1, pair)));
    for (int step = 0; step < 8; ++step) {
      const Tensors gradients = rank.step(own_gradients(group));
      const at::NoGradGuard no_grad;
      for (size_t i = 0; i < gradients.size(); ++i) {
        rank.parameters[i].sub_(gradients[i], 0.25);
      }
      const bool is_same = same_on_ranks(group, rank.parameters);
      EXPECT_EQ(is_same, step == 0);
      if (step % 4 != 3) continue;
      for (const at::Tensor& one : rank.parameters) {
        all_reduce(group, one.detach(), ReduceOp::kAverage)->wait();
      }
      EXPECT_TRUE(same_on_ranks(group, rank.parameters));
      // As if all gradients had been averaged: 2.5 in each step.
      EXPECT_TRUE(is_all(rank.parameters[0], 1 - 0.25 * 2.5 * (step + 1)));
    }
  });
}

// Rank 3 fails in its hook. Its partner waits in their subgroup, the other pair
// has nobody that is missing: all hear of it, and long before the timeout.
void fail_on_rank_three(const SharedGroup& group) {
  const SharedGroup pair = group->split(group->rank() / 2);
  bool fail = false;
  const CommHook hook = [&, inner = post_local_sgd(local_from(1, pair))](
                            const GradBucket& bucket,
                            const HookContext& context) {
    if (fail && group->rank() == 3) throw std::runtime_error("no more ink");
    return inner(bucket, context);
  };
  ToldRank rank(parameters_of({{3, 4}, {5}}), group, hook, bucket_each());
  for (int step = 0; step < 3; ++step) rank.step(own_gradients(group));
  group->barrier()->wait();  // pairs do not wait for each other
  fail = true;
  const auto begin = Deadline::Clock::now();
  const auto is_soon = [&] {
    return Deadline::Clock::now() - begin < std::chrono::seconds(10);
  };
  // The other pair may end the step in which rank 3 fails.
  const auto until_it_fails = [&] {
    while (is_soon()) rank.step(own_gradients(group));
  };
  std::string text;
  try {
    until_it_fails();
  } catch (const std::exception& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("no more ink")) << group->rank();
  EXPECT_TRUE(is_soon());
  EXPECT_NE(pair->failure(), nullptr);
  // The subgroup is gone for good, and the hook says so after a reset.
  group->barrier()->wait();
  rank.reducer->reset_state();
  fail = false;
  rank.reducer->register_comm_hook(post_local_sgd(local_from(0, pair)));
  EXPECT_THAT(message_of<Error>([&] { rank.step(own_gradients(group)); }),
              HasSubstr("register the hook with a new one"));
}

class PostLocalSgdBackends : public ::testing::TestWithParam<BackendKind> {};

TEST_P(PostLocalSgdBackends, WhenOneRankFailsAllDo) {
  run_ranks(
      GetParam(), 4,
      [](ProcessGroup& world) { fail_on_rank_three(world.shared_from_this()); },
      parity_options());
}

INSTANTIATE_TEST_SUITE_P(Kinds, PostLocalSgdBackends,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& kind) { return kind.param.name; });

// Ranks have counted as many steps again, and the subgroup is another one.
TEST(PostLocalSgd, AResetMakesANewDefaultSubgroup) {
  on_ranks(2, [](const SharedGroup& group) {
    bool fail = false;
    const CommHook hook = [&, inner = post_local_sgd(local_from(2))](
                              const GradBucket& bucket,
                              const HookContext& context) {
      if (fail && group->rank() == 1 && bucket.index() == 1) {
        throw std::runtime_error("no more ink");
      }
      return inner(bucket, context);
    };
    ToldRank rank(parameters_of({{3, 4}, {5}}), group, hook, bucket_each());
    for (int round = 0; round < 3; ++round) {
      fail = false;
      for (int step = 0; step < 4; ++step) {
        EXPECT_TRUE(is_all(rank.step(own_gradients(group))[0], 1.5));
      }
      fail = true;
      EXPECT_ANY_THROW(rank.step(own_gradients(group)));
      group->barrier()->wait();
      rank.reducer->reset_state();
      rank.reducer->register_comm_hook(hook);
    }
  });
}

TEST(PostLocalSgd, OptionsMustMakeSense) {
  EXPECT_THAT(message_of<UsageError>([] { post_local_sgd(local_from(-1)); }),
              HasSubstr("start_iter is -1"));
  EXPECT_EQ(post_local_sgd(local_from(0)).name(), "post_local_sgd");
  on_ranks(2, [](const SharedGroup& group) {
    ToldRank rank(parameters_of({{3, 4}, {5}}), group,
                  post_local_sgd(local_from(group->rank())));
    EXPECT_THAT(
        message_of<MismatchError>([&] { rank.step(own_gradients(group)); }),
        HasSubstr("post_local_sgd on rank 1"));
  });
}

}  // namespace
}  // namespace lockstep

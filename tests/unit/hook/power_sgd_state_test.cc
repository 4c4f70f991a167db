// SPDX-License-Identifier: Apache-2.0
// What PowerSGD keeps from step to step, and through what it is kept.
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/hook/power_sgd.h"
#include "support/message_of.h"
#include "unit/hook/power_sgd_reference.h"
#include "unit/hook/told_gradients.h"

namespace lockstep {
namespace {

using hooks::PowerSgd;
using hooks::PowerSgdOptions;
using ::testing::HasSubstr;
using namespace testing;

const Shapes kFour = {{20, 30}, {30}, {24, 27}, {30, 20}};

ReducerOptions one_parameter_each() {
  ReducerOptions options;
  options.bucket_caps_bytes = {1};
  return options;
}

CommHook hook_of(PowerSgd& state, bool batched) {
  return batched ? state.batched_hook() : state.hook();
}

Tensors step_of(ToldRank& rank, const SharedGroup& group, int step) {
  return rank.step(random_gradients(kFour, step, group->rank()));
}

// Buckets matter to nothing: one Reducer changes its plan again and again.
TEST(PowerSgdState, SurvivesNewBuckets) {
  on_ranks(2, [](const SharedGroup& group) {
    ToldRank calm(parameters_of(kFour), group,
                  hooks::power_sgd(from_step_two(1)));
    ToldRank changing(parameters_of(kFour), group,
                      hooks::power_sgd(from_step_two(1)));
    for (int step = 0; step < 14; ++step) {
      if (step == 4) {
        changing.reducer->set_bucket_plan(BucketPlan{{{{2, 0}}, {{3}}, {{1}}}});
      }
      if (step == 7) {
        changing.reducer->set_bucket_plan(BucketPlan{{{{1, 3}}, {{0, 2}}}});
      }
      // Bucket 0 has nothing to compress, and then what was in bucket 1.
      if (step == 8) {
        changing.reducer->set_bucket_plan(BucketPlan{{{{1}}, {{0, 2}}, {{3}}}});
      }
      if (step == 10) {
        changing.reducer->set_bucket_plan(BucketPlan{{{{0, 2}}, {{1}}, {{3}}}});
      }
      EXPECT_TRUE(
          same_bits(step_of(calm, group, step), step_of(changing, group, step)))
          << step;
    }
  });
}

// The residuals go with the parameters: nothing is lost.
TEST(PowerSgdState, BatchedResidualsSurviveNewBuckets) {
  on_ranks(2, [](const SharedGroup& group) {
    ToldRank rank(parameters_of(kFour), group,
                  hooks::batched_power_sgd(from_step_two(2)));
    const auto gradients = [&](int of) {
      return random_gradients(kFour, 0, of);
    };
    const Tensors means = mean_over_ranks(2, gradients);
    at::Tensor sum = at::zeros({20, 30}, at::kDouble);
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
      if (step % 50 == 49) {
        const bool odd = step % 100 == 99;
        rank.reducer->set_bucket_plan(odd ? BucketPlan{{{{2, 0}}, {{3}}, {{1}}}}
                                          : BucketPlan{{{{1, 3}}, {{0, 2}}}});
      }
      sum += rank.step(gradients(group->rank()))[0];
    }
    EXPECT_LT(error_of(sum / kSteps, means[0]), 0.15);
  });
}

TEST(PowerSgdState, GradientsOfNoSyncAreReducedWithTheNext) {
  on_ranks(2, [](const SharedGroup& group) {
    PowerSgd state(from_step_two(2));
    ToldRank rank(parameters_of({{24, 24}}), group, state.hook());
    for (uint64_t step = 0; step < 5; ++step) {
      // Both of rank one: their sum has rank two.
      const at::Tensor first = low_rank(24, 24, 1, 2 * step, 0);
      const at::Tensor second = low_rank(24, 24, 1, 2 * step + 1, 0);
      clear_gradients(rank.parameters);
      {
        const auto alone = rank.reducer->no_sync();
        rank.accumulate({first});
      }
      rank.accumulate({second});
      EXPECT_LT(error_of(rank.parameters[0].grad(), first + second), 1e-4);
      EXPECT_EQ(state.stats().iterations, static_cast<int64_t>(step) + 1);
    }
  });
}

class PowerSgdBoth : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Batched, PowerSgdBoth, ::testing::Bool());

// Rank 1 fails in bucket 1, when others may have finished bucket 0 or not.
TEST_P(PowerSgdBoth, GoesOnAfterAFailedStepAndAReset) {
  on_ranks(3, [](const SharedGroup& group) {
    PowerSgd state(from_step_two(2));
    bool fail = false;
    const CommHook hook = [&, inner = hook_of(state, GetParam())](
                              const GradBucket& bucket,
                              const HookContext& context) {
      if (fail && group->rank() == 1 && bucket.index() == 1) {
        throw std::runtime_error("no more paper");
      }
      return inner(bucket, context);
    };
    ToldRank rank(parameters_of(kFour), group, hook, one_parameter_each());
    int step = 0;
    for (int round = 0; round < 3; ++round) {
      fail = false;
      for (int i = 0; i < 4; ++i) {
        const Tensors results = step_of(rank, group, step++);
        ASSERT_TRUE(same_on_ranks(group, results)) << step;
      }
      fail = true;
      EXPECT_ANY_THROW(step_of(rank, group, step));
      rank.reducer->reset_state();
      rank.reducer->register_comm_hook(hook, "again");
    }
    EXPECT_GE(state.stats().iterations, 12);
  });
}

// One rank has counted a step that the others have not, and found directions
// that they do not know.
TEST_P(PowerSgdBoth, RanksThatDifferAgreeWithANewGroup) {
  on_ranks(2, [](const SharedGroup& group) {
    PowerSgd state(from_step_two(1));
    if (group->rank() == 1) {
      auto alone = std::move(make_local_groups(1)[0]);
      ToldRank own(parameters_of(kFour), alone, hook_of(state, GetParam()));
      for (int step = 0; step < 5; ++step) step_of(own, group, step);
    }
    ToldRank rank(parameters_of(kFour), group, hook_of(state, GetParam()));
    for (int step = 0; step < 4; ++step) {
      EXPECT_TRUE(same_on_ranks(group, step_of(rank, group, step))) << step;
      EXPECT_EQ(state.stats().iterations, 6 + step);
    }
  });
}

// Directions are kept if all ranks have the same, and forgotten otherwise.
TEST(PowerSgdState, DirectionsThatDifferAreForgotten) {
  on_ranks(2, [](const SharedGroup& group) {
    detail::PowerSgdState state(from_step_two(1));
    const at::Tensor same = at::ones({1, 5});
    state.directions_of(3)->columns = same;
    state.meet(group, "power_sgd");
    EXPECT_TRUE(state.directions_of(3)->columns.is_same(same));
    state.directions_of(4)->columns = at::full({1, 5}, group->rank());
    state.meet(group, "power_sgd");  // known already
    EXPECT_TRUE(state.directions_of(3)->columns.defined());
    state.meet(group->duplicate("other"), "power_sgd");
    EXPECT_FALSE(state.directions_of(3)->columns.defined());
    EXPECT_FALSE(state.directions_of(4)->columns.defined());
  });
}

TEST_P(PowerSgdBoth, LoadedItGoesOnAsIfItHadNotStopped) {
  on_ranks(2, [](const SharedGroup& group) {
    PowerSgd state(from_step_two(2));
    ToldRank rank(parameters_of(kFour), group, hook_of(state, GetParam()));
    for (int step = 0; step < 5; ++step) step_of(rank, group, step);
    std::stringstream file;
    state.save(file);

    PowerSgd other(from_step_two(2));
    other.load(file);
    EXPECT_EQ(other.stats().iterations, 5);
    EXPECT_EQ(other.stats().bytes_sent, state.stats().bytes_sent);
    ToldRank loaded(parameters_of(kFour), group, hook_of(other, GetParam()));
    // The first plan of a Reducer is not that of a later one.
    loaded.reducer->set_bucket_plan(rank.reducer->bucket_plan());
    for (int step = 5; step < 9; ++step) {
      EXPECT_TRUE(
          same_bits(step_of(rank, group, step), step_of(loaded, group, step)))
          << step;
    }
  });
}

std::string saved_state() {
  std::stringstream file;
  on_ranks(1, [&](const SharedGroup& group) {
    PowerSgd state(from_step_two(1));
    ToldRank rank(parameters_of({{20, 20}, {3}, {0}}), group, state.hook());
    for (int step = 0; step < 4; ++step) {
      rank.step(random_gradients({{20, 20}, {3}, {0}}, step, 0));
    }
    state.save(file);
  });
  return file.str();
}

// A copy of `state` as text, to see whether it has changed.
std::string text_of(const PowerSgd& state) {
  std::ostringstream out;
  state.save(out);
  return out.str();
}

std::string load_error(PowerSgd& state, const std::string& bytes) {
  return message_of<UsageError>([&] {
    std::istringstream in(bytes);
    state.load(in);
  });
}

TEST(PowerSgdState, RefusesWhatItHasNotWritten) {
  const std::string good = saved_state();
  PowerSgd state(from_step_two(1));
  std::istringstream in(good);
  state.load(in);
  EXPECT_EQ(text_of(state), good);

  EXPECT_THAT(load_error(state, ""), HasSubstr("no state of power_sgd"));
  EXPECT_THAT(load_error(state, "PK\x03\x04 something else altogether"),
              HasSubstr("begins with 'PK"));
  for (const size_t size : {good.size() - 1, good.size() / 2, size_t{30}}) {
    EXPECT_THAT(load_error(state, good.substr(0, size)),
                HasSubstr("ends too early"))
        << size;
  }
  for (size_t at = 45; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    EXPECT_THAT(load_error(state, bad), HasSubstr("damaged")) << at;
  }
  // A size that no memory has.
  std::string huge = good;
  huge[27] = '\x7f';
  EXPECT_THAT(load_error(state, huge), HasSubstr("ends too early"));
  EXPECT_EQ(text_of(state), good);
}

TEST(PowerSgdState, AStateOfAnotherModelIsNamed) {
  const std::string saved = saved_state();
  on_ranks(1, [&](const SharedGroup& group) {
    PowerSgd state(from_step_two(1));
    std::istringstream in(saved);
    state.load(in);
    ToldRank rank(parameters_of({{20, 21}}), group, state.hook());
    EXPECT_THAT(message_of<UsageError>([&] {
                  rank.step({at::ones({20, 21})});
                }),
                HasSubstr("another model"));
  });
}

TEST(PowerSgdState, AStreamThatFailsIsAnError) {
  const PowerSgd state(from_step_two(1));
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THAT(message_of<SystemError>([&] { state.save(out); }),
              HasSubstr("could not be written"));
}

// ---- Buckets that are not compressed.

TEST_P(PowerSgdBoth, OtherTypesAreExact) {
  on_ranks(2, [](const SharedGroup& group) {
    const auto make = [] {
      return Tensors{parameter({20, 20}, at::kDouble), parameter({40, 40})};
    };
    PowerSgd state(from_step_two(1));
    ToldRank rank(make(), group, hook_of(state, GetParam()));
    ToldRank plain(make(), group, hooks::all_reduce());
    for (int step = 0; step < 5; ++step) {
      Tensors gradients =
          random_gradients({{20, 20}, {40, 40}}, step, group->rank());
      gradients[0] = gradients[0].to(at::kDouble);
      const Tensors results = rank.step(gradients);
      const Tensors expected = plain.step(gradients);
      EXPECT_TRUE(at::equal(results[0], expected[0]));
      EXPECT_EQ(at::equal(results[1], expected[1]), step < 2);
    }
  });
}

TEST_P(PowerSgdBoth, SparseGradientsAreExact) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = {parameter({40, 30}), parameter({30, 30})};
    ReducerOptions options;
    options.expect_sparse = {true, false};
    Reducer reducer(parameters, group, options);
    PowerSgd state(from_step_two(1));
    reducer.register_comm_hook(hook_of(state, GetParam()));
    for (int step = 0; step < 5; ++step) {
      clear_gradients(parameters);
      reducer.prepare_for_forward();
      const at::Tensor row =
          at::embedding(parameters[0], at::tensor({int64_t{group->rank()} + 4}),
                        -1, false, true);
      const at::Tensor loss = row.sum() + parameters[1].sum();
      reducer.prepare_for_backward({loss});
      loss.backward();
      const at::Tensor expected = at::zeros({40, 30});
      expected.narrow(0, 4, 2).fill_(0.5);
      EXPECT_TRUE(at::equal(parameters[0].grad().to_dense(), expected));
      EXPECT_LT(error_of(parameters[1].grad(), at::ones({30, 30})), 1e-5);
    }
    EXPECT_EQ(state.stats().iterations, 5);
  });
}

// The second parameter is used in every other step; its bucket is the last, and
// still shown, so that steps are counted.
TEST_P(PowerSgdBoth, SkippedBucketsAreCountedAndKeepTheirState) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = {parameter({24, 24}), parameter({30, 30})};
    ReducerOptions options = one_parameter_each();
    options.find_unused_parameters = true;
    options.skip_unused = true;
    options.bucket_plan = BucketPlan{{{{1}}, {{0}}}};
    Reducer reducer(parameters, group, options);
    PowerSgd state(from_step_two(1));
    reducer.register_comm_hook(hook_of(state, GetParam()));
    const at::Tensor gradient = low_rank(24, 24, 1, 3, 0);
    const at::Tensor other = low_rank(30, 30, 1, 4, 0);
    for (int step = 0; step < 8; ++step) {
      clear_gradients(parameters);
      const bool uses = step % 2 == 0;
      reducer.prepare_for_forward();
      at::Tensor loss = (parameters[1] * other).sum();
      if (uses) loss = loss + (parameters[0] * gradient).sum();
      reducer.prepare_for_backward({loss});
      loss.backward();
      EXPECT_LT(error_of(parameters[1].grad(), other), 1e-5) << step;
      EXPECT_EQ(parameters[0].grad().defined(), uses);
      if (uses) {
        EXPECT_LT(error_of(parameters[0].grad(), gradient), 1e-5) << step;
      }
      EXPECT_EQ(state.stats().iterations, step + 1);
    }
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What PowerSGD computes.
#include "lockstep/hook/power_sgd.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/hook/power_sgd_reference.h"
#include "unit/hook/told_gradients.h"

namespace lockstep {
namespace {

using hooks::PowerSgd;
using hooks::PowerSgdOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

// Matrices of several shapes, a convolution, and vectors.
const Shapes kShapes = {{20, 30}, {30}, {24, 3, 3, 3}, {30, 20}, {2, 2}, {20}};

std::vector<Tensors> gradients_of_all(int step, int ranks) {
  std::vector<Tensors> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(random_gradients(kShapes, step, rank));
  }
  return all;
}

// Trains with random gradients and compares each step with the reference.
void expect_reference(const PowerSgdOptions& options) {
  constexpr int kRanks = 3;
  on_ranks(kRanks, [&](const SharedGroup& group) {
    ToldRank rank(parameters_of(kShapes), group, hooks::power_sgd(options));
    PowerSgdReference reference(options, kRanks);
    for (int step = 0; step < 8; ++step) {
      const auto gradients = gradients_of_all(step, kRanks);
      const Tensors results =
          rank.step(gradients[static_cast<size_t>(group->rank())]);
      const Tensors expected = reference.step(gradients);
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_LT(error_of(results[i], expected[i]), 1e-5)
            << "step " << step << ", parameter " << i;
      }
      EXPECT_TRUE(same_on_ranks(group, results)) << "step " << step;
    }
  });
}

TEST(PowerSgd, IsTheReference) {
  for (const int rank : {1, 2, 4}) expect_reference(from_step_two(rank));
}

TEST(PowerSgd, IsTheReferenceWithEveryOption) {
  PowerSgdOptions options = from_step_two(2);
  options.warm_start = false;
  expect_reference(options);
  options.error_feedback = false;
  options.start_iter = 0;
  expect_reference(options);
  options.warm_start = true;
  options.start_iter = 2;
  options.seed = 12;
  expect_reference(options);
  options.batch_same_shapes = true;
  options.error_feedback = true;
  expect_reference(options);
}

// Several matrices of one shape in one bucket.
TEST(PowerSgd, ABatchGivesWhatSingleMatricesGive) {
  const Shapes shapes = {{16, 20}, {12, 12}, {16, 20}, {5}, {16, 20}};
  on_ranks(2, [&](const SharedGroup& group) {
    PowerSgdOptions options = from_step_two(2);
    ToldRank single(parameters_of(shapes), group, hooks::power_sgd(options));
    options.batch_same_shapes = true;
    ToldRank batched(parameters_of(shapes), group, hooks::power_sgd(options));
    for (int step = 0; step < 6; ++step) {
      const Tensors gradients = random_gradients(shapes, step, group->rank());
      const Tensors one = single.step(gradients);
      const Tensors other = batched.step(gradients);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_LT(error_of(other[i], one[i]), 1e-5) << step << " " << i;
      }
      EXPECT_TRUE(same_on_ranks(group, other));
    }
  });
}

TEST(PowerSgd, BeforeTheStartIsThePlainAverage) {
  on_ranks(3, [](const SharedGroup& group) {
    PowerSgdOptions options = from_step_two(1);
    options.start_iter = 3;
    ToldRank rank(parameters_of(kShapes), group, hooks::power_sgd(options));
    ToldRank plain(parameters_of(kShapes), group, hooks::all_reduce());
    for (int step = 0; step < 5; ++step) {
      const Tensors gradients = random_gradients(kShapes, step, group->rank());
      EXPECT_EQ(same_bits(rank.step(gradients), plain.step(gradients)),
                step < 3);
    }
  });
}

class PowerSgdForms : public ::testing::TestWithParam<bool> {
 protected:
  static CommHook hook_of(const PowerSgdOptions& options) {
    return GetParam() ? hooks::batched_power_sgd(options)
                      : hooks::power_sgd(options);
  }
};
INSTANTIATE_TEST_SUITE_P(Batched, PowerSgdForms, ::testing::Bool());

// Of one bucket that is one square matrix, so that both forms see its rank.
TEST_P(PowerSgdForms, AGradientOfLowRankIsExact) {
  on_ranks(2, [&](const SharedGroup& group) {
    for (const int64_t true_rank : {1, 2, 3}) {
      ToldRank rank(parameters_of({{24, 24}}), group,
                    hook_of(from_step_two(3)));
      for (int step = 0; step < 6; ++step) {
        const auto gradient = [&](int of) {
          return Tensors{low_rank(24, 24, true_rank,
                                  static_cast<uint64_t>(step),
                                  static_cast<uint64_t>(of))};
        };
        const Tensors results = rank.step(gradient(group->rank()));
        const Tensors expected = mean_over_ranks(2, gradient);
        EXPECT_LT(error_of(results[0], expected[0]), 1e-4)
            << "rank " << true_rank << ", step " << step;
        EXPECT_TRUE(same_on_ranks(group, results));
      }
    }
  });
}

// What is left out stays bounded, so the mean over steps becomes exact; without
// feedback it does not.
TEST_P(PowerSgdForms, ErrorFeedbackLosesNothingInTheLongRun) {
  const Shapes shapes = {{20, 25}, {30, 10}, {7}};
  on_ranks(2, [&](const SharedGroup& group) {
    const auto error_after = [&](int steps, bool feedback) {
      PowerSgdOptions options = from_step_two(1);
      options.error_feedback = feedback;
      ToldRank rank(parameters_of(shapes), group, hook_of(options));
      const auto gradients = [&](int of) {
        return random_gradients(shapes, 0, of);
      };
      at::Tensor sum = at::zeros({20, 25}, at::kDouble);
      for (int step = 0; step < steps; ++step) {
        sum += rank.step(gradients(group->rank()))[0];
      }
      return error_of(sum / steps, mean_over_ranks(2, gradients)[0]);
    };
    const double early = error_after(30, true);
    const double late = error_after(300, true);
    EXPECT_LT(late, early / 5);
    EXPECT_LT(late, 0.1);
    EXPECT_GT(error_after(300, false), 0.5);
  });
}

TEST_P(PowerSgdForms, ADivisorCountsForResultsAndResiduals) {
  on_ranks(2, [&](const SharedGroup& group) {
    Tensors gradients = {low_rank(24, 24, 1, 3, 0)};
    Shapes shapes = {{24, 24}};
    if (!GetParam()) {
      gradients.push_back(random_of({24}, 4));
      shapes.push_back({24});
    }
    ToldRank rank(parameters_of(shapes), group, hook_of(from_step_two(2)));
    for (int step = 0; step < 6; ++step) {
      const int divisor = step % 2 == 0 ? 1 : 2;
      if (divisor == 1) rank.reducer->set_divisor(1);  // for one backward
      const double factor = 2.0 / divisor;
      const Tensors results = rank.step(gradients);
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_LT(error_of(results[i], gradients[i] * factor), 1e-5) << step;
      }
      EXPECT_TRUE(same_on_ranks(group, results));
    }
  });
}

// A step that overflows is NaN everywhere, and the next one is as if nothing
// had happened.
TEST_P(PowerSgdForms, WhatIsNotFiniteLeavesNoTrace) {
  on_ranks(2, [&](const SharedGroup& group) {
    ToldRank rank(parameters_of({{24, 24}}), group, hook_of(from_step_two(2)));
    for (int step = 0; step < 8; ++step) {
      at::Tensor gradient = low_rank(24, 24, 2, 3, 0);
      const bool is_bad = step == 4 || step == 5;
      if (is_bad && group->rank() == 1) gradient[3][5] = INFINITY;
      const Tensors results = rank.step({gradient});
      if (is_bad) {
        EXPECT_TRUE(at::all(at::isnan(results[0])).item<bool>()) << step;
      } else {
        EXPECT_LT(error_of(results[0], gradient), 1e-5) << step;
      }
    }
  });
}

// Directions of a gradient that was zero are zero, and must not stay so.
TEST_P(PowerSgdForms, AGradientMayBeZeroForAWhile) {
  on_ranks(2, [&](const SharedGroup& group) {
    ToldRank rank(parameters_of({{24, 24}}), group, hook_of(from_step_two(1)));
    for (int step = 0; step < 8; ++step) {
      const at::Tensor gradient =
          step < 5 ? at::zeros({24, 24}) : low_rank(24, 24, 1, 3, 0);
      const Tensors results = rank.step({gradient});
      EXPECT_LT(distance(results[0], gradient), 1e-4) << step;
    }
  });
}

// Gradients of a transposed parameter lie by column.
TEST(PowerSgd, ATransposedParameterIsAMatrixToo) {
  on_ranks(2, [](const SharedGroup& group) {
    const at::Tensor transposed =
        at::ones({30, 20}).t().detach().set_requires_grad(true);
    ToldRank rank({transposed}, group, hooks::power_sgd(from_step_two(1)));
    for (int step = 0; step < 4; ++step) {
      const at::Tensor gradient = low_rank(20, 30, 1, 3, 0);
      EXPECT_LT(error_of(rank.step({gradient})[0], gradient), 1e-5) << step;
    }
  });
}

TEST(PowerSgd, LeavesTheProgramsGeneratorAlone) {
  on_ranks(1, [](const SharedGroup& group) {
    const auto state = at::detail::getDefaultCPUGenerator().get_state();
    PowerSgdOptions options = from_step_two(2);
    options.warm_start = false;
    ToldRank rank(parameters_of(kShapes), group, hooks::power_sgd(options));
    for (int step = 0; step < 4; ++step) {
      rank.step(random_gradients(kShapes, step, 0));
    }
    EXPECT_TRUE(
        at::equal(state, at::detail::getDefaultCPUGenerator().get_state()));
  });
}

TEST(PowerSgd, CountsWhatItSaves) {
  on_ranks(2, [](const SharedGroup& group) {
    PowerSgd state(from_step_two(1));
    ToldRank rank(parameters_of({{32, 32}, {32}}), group, state.hook());
    EXPECT_EQ(state.stats().compression_rate(), 1);
    for (int step = 0; step < 5; ++step) {
      rank.step(random_gradients({{32, 32}, {32}}, step, group->rank()));
    }
    EXPECT_EQ(state.stats().iterations, 5);
    EXPECT_EQ(state.stats().bytes_uncompressed, 3 * 4 * (32 * 32 + 32));
    EXPECT_EQ(state.stats().bytes_sent, 3 * 4 * (32 + 32 + 32));
    EXPECT_DOUBLE_EQ(state.stats().compression_rate(), 11);
  });
}

TEST(PowerSgd, WritesToTheLogNowAndThen) {
  const LogCapture log;
  on_ranks(2, [](const SharedGroup& group) {
    PowerSgdOptions options = from_step_two(1);
    options.log_stats_every = 4;
    ToldRank rank(parameters_of({{32, 32}}), group, hooks::power_sgd(options));
    for (int step = 0; step < 9; ++step) {
      rank.step(random_gradients({{32, 32}}, step, group->rank()));
    }
  });
  EXPECT_EQ(log.count("16.0 times fewer"), 2);  // rank 0 alone
}

TEST(PowerSgd, OptionsMustMakeSense) {
  const auto error_with = [](auto change) {
    PowerSgdOptions options;
    change(options);
    return message_of<UsageError>([&] { PowerSgd state(options); });
  };
  EXPECT_THAT(error_with([](auto& o) { o.rank = 0; }),
              HasSubstr("rank is 0 but must be at least 1"));
  EXPECT_THAT(error_with([](auto& o) { o.start_iter = 1; }),
              AllOf(HasSubstr("start_iter is 1"), HasSubstr("greater than 1")));
  EXPECT_THAT(error_with([](auto& o) {
                o.start_iter = 0;
                o.warm_start = false;
              }),
              HasSubstr("error_feedback"));
  EXPECT_THAT(error_with([](auto& o) {
                o.start_iter = -1;
                o.warm_start = o.error_feedback = false;
              }),
              HasSubstr("must not be negative"));
  EXPECT_THAT(
      error_with([](auto& o) { o.min_compression_rate = std::nan(""); }),
      HasSubstr("min_compression_rate"));
  EXPECT_THAT(error_with([](auto& o) { o.epsilon = -1; }),
              HasSubstr("epsilon is -1"));
  EXPECT_THAT(error_with([](auto& o) { o.log_stats_every = -1; }),
              HasSubstr("log_stats_every"));
  PowerSgdOptions options;
  options.warm_start = options.error_feedback = false;
  options.start_iter = 0;
  EXPECT_EQ(PowerSgd(options).hook().name(), "power_sgd");
  EXPECT_EQ(PowerSgd(options).batched_hook().name(), "batched_power_sgd");
}

TEST(PowerSgd, RanksWithOtherOptionsAreNamed) {
  on_ranks(3, [](const SharedGroup& group) {
    ToldRank rank(parameters_of({{32, 32}}), group,
                  hooks::power_sgd(from_step_two(group->rank() == 2 ? 2 : 1)));
    EXPECT_THAT(message_of<MismatchError>([&] {
                  rank.step({at::ones({32, 32})});
                }),
                HasSubstr("power_sgd on rank 2 are not those of rank 0"));
  });
}

}  // namespace
}  // namespace lockstep

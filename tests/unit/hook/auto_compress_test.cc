// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/auto_compress.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hook/auto_compress_clock.h"
#include "lockstep/base/error.h"
#include "lockstep/hook/optimizer_in_backward.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::choosing {
namespace {

using ::testing::HasSubstr;
using namespace lockstep::testing;

// A rank's clock, which stands still unless told.
using Clock = std::shared_ptr<double>;

// The plain average, which takes `seconds` on `slow_rank`; counts its calls.
CommHook slow_on(const std::string& name, int slow_rank, double seconds,
                 const Clock& clock, const std::shared_ptr<int>& calls) {
  const auto call = [=](const GradBucket& bucket, const HookContext& context) {
    ++*calls;
    if (context.group()->rank() == slow_rank) *clock += seconds;
    return hooks::all_reduce()(bucket, context);
  };
  return CommHook(call).named(name);
}

struct Calls {
  std::shared_ptr<int> first = std::make_shared<int>(0);
  std::shared_ptr<int> second = std::make_shared<int>(0);
};

// `between` runs after each step.
void train(const SharedGroup& group, const CommHook& hook, int steps,
           const std::function<void()>& between) {
  const Tensors parameters = some_parameters(2);
  Reducer reducer(parameters, group);
  reducer.register_comm_hook(hook);
  for (int i = 0; i < steps; ++i) {
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), mean_of(group->size())));
    between();
  }
}

// 2 * 1 + 3 steps of the plain average, 1 + 3 of each candidate.
hooks::AutoCompressOptions short_trial(double min_gain = 1.05) {
  hooks::AutoCompressOptions options;
  options.warm_up_steps = 1;
  options.min_gain = min_gain;
  return options;
}
constexpr int kTrial = 5 + 4 + 4;

TEST(AutoCompress, StaysWithThePlainAverageWhereNothingPays) {
  on_ranks(2, [](const SharedGroup& group) {
    const Calls calls;
    const auto clock = std::make_shared<double>(0);
    // Each is slow on one rank alone: the slowest rank counts.
    train(group,
          detail::auto_compress_by([=] { return *clock; },
                                   {slow_on("a", 0, 0.2, clock, calls.first),
                                    slow_on("b", 1, 0.2, clock, calls.second)},
                                   short_trial()),
          kTrial + 10, [&] { *clock += 1; });
    EXPECT_EQ(*calls.first, 4);
    EXPECT_EQ(*calls.second, 4);
  });
}

// Steps take a second, but for those with the second candidate.
TEST(AutoCompress, GoesOnWithTheQuickestCandidate) {
  on_ranks(2, [](const SharedGroup& group) {
    const Calls calls;
    const auto clock = std::make_shared<double>(0);
    int seen = 0;
    train(group,
          detail::auto_compress_by(
              [=] { return *clock; },
              {slow_on("plain", 0, 0, clock, calls.first),
               slow_on("quick", 1, 0.1, clock, calls.second)},
              short_trial()),
          kTrial + 10, [&] {
            const bool is_quick = *calls.second > seen;
            seen = *calls.second;
            *clock += is_quick ? 0.5 : 1;
          });
    EXPECT_EQ(*calls.first, 4);
    EXPECT_EQ(*calls.second, 4 + 10);
  });
}

TEST(AutoCompress, RefusesWhatItCannotTry) {
  EXPECT_THAT(
      message_of<UsageError>([] { hooks::auto_compress({CommHook()}); }),
      HasSubstr("empty"));
  const hooks::OptimizerInBackward steps(
      [](std::vector<at::Tensor>) { return nullptr; });
  EXPECT_THAT(
      message_of<UsageError>([&] { hooks::auto_compress({steps.hook()}); }),
      HasSubstr("updates parameters"));
  hooks::AutoCompressOptions options;
  options.measured_steps = 0;
  EXPECT_THAT(
      message_of<UsageError>([&] { hooks::auto_compress({}, options); }),
      HasSubstr("measured_steps 0"));
  options = {};
  options.min_gain = 0.5;
  EXPECT_THAT(
      message_of<UsageError>([&] { hooks::auto_compress({}, options); }),
      HasSubstr("min_gain is 0.5"));
}

TEST(AutoCompress, TriesSixteenBitsUnlessTold) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(1);
    Reducer reducer(parameters, group);
    reducer.register_comm_hook(hooks::auto_compress({}, short_trial()));
    // A third is no 16-bit number, so the type can be told from the result.
    int rounded = 0;
    for (int i = 0; i < kTrial; ++i) {
      clear_gradients(parameters);
      reducer.prepare_for_forward();
      const at::Tensor loss = loss_of(parameters, 1.0 / 3);
      reducer.prepare_for_backward({loss});
      loss.backward();
      const double error =
          std::abs(parameters[0].grad()[0].item<double>() - 1.0 / 3);
      if (error > 1e-6) ++rounded;
    }
    EXPECT_EQ(rounded, 8);
  });
}

}  // namespace
}  // namespace lockstep::choosing

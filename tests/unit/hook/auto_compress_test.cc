// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/auto_compress.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/hook/make_hook.h"
#include "lockstep/hook/optimizer_in_backward.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::choosing {
namespace {

using ::testing::HasSubstr;
using namespace lockstep::testing;

// The plain average, which takes longer by `delay` on `slow_rank`; counts its
// calls.
CommHook delayed(const std::string& name, int slow_rank,
                 std::chrono::milliseconds delay,
                 const std::shared_ptr<int>& calls) {
  const auto call = [=](const GradBucket& bucket, const HookContext& context) {
    ++*calls;
    if (context.group()->rank() == slow_rank) {
      context.group()->post([delay] { std::this_thread::sleep_for(delay); });
    }
    return hooks::all_reduce()(bucket, context);
  };
  return CommHook(call).named(name);
}

struct Calls {
  std::shared_ptr<int> first = std::make_shared<int>(0);
  std::shared_ptr<int> second = std::make_shared<int>(0);
};

// `between` runs after each step.
void train(
    const SharedGroup& group, const CommHook& hook, int steps,
    const std::function<void()>& between = [] {}) {
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
    // Slow on one rank alone: the slowest counts.
    train(group,
          hooks::auto_compress(
              {delayed("a", 0, std::chrono::milliseconds(20), calls.first),
               delayed("b", 1, std::chrono::milliseconds(20), calls.second)},
              short_trial()),
          kTrial + 10);
    EXPECT_EQ(*calls.first, 4);
    EXPECT_EQ(*calls.second, 4);
  });
}

// Steps take 20 ms, but for those with the second candidate.
TEST(AutoCompress, GoesOnWithTheQuickestCandidate) {
  on_ranks(2, [](const SharedGroup& group) {
    const Calls calls;
    int seen = 0;
    train(group,
          hooks::auto_compress({delayed("slow", 0, {}, calls.first),
                                delayed("quick", 1, {}, calls.second)},
                               short_trial()),
          kTrial + 10, [&] {
            const bool is_quick = *calls.second > seen;
            seen = *calls.second;
            if (!is_quick) {
              std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
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

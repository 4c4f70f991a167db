// SPDX-License-Identifier: Apache-2.0
// PowerSGD where gradients come late, each rank in its own way: on every
// backend the same bits as without delays.
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/hook/power_sgd.h"
#include "parity/parity_kinds.h"
#include "support/rank_team.h"
#include "unit/hook/power_sgd_reference.h"
#include "unit/hook/told_gradients.h"

namespace lockstep {
namespace {

using namespace testing;

constexpr int kLateRanks = 4;
const Shapes kUnequal = {{40, 20}, {3},      {12, 9},  {7, 64},
                         {100},    {16, 16}, {2, 300}, {11, 11}};

// A gradient may come late, by its rank's own luck.
void delay(const Tensors& parameters, int rank) {
  const auto random = std::make_shared<std::mt19937>(rank);
  for (const at::Tensor& one : parameters) {
    one.register_hook([random](const at::Tensor& gradient) {
      if ((*random)() % 4 == 0) {
        std::this_thread::sleep_for(
            std::chrono::microseconds((*random)() % 500));
      }
      return gradient;
    });
  }
}

void train_late(ProcessGroup& world, bool batched) {
  at::set_num_threads(1);
  const SharedGroup group = world.shared_from_this();
  hooks::PowerSgdOptions options = from_step_two(2);
  const auto hook = [&] {
    return batched ? hooks::batched_power_sgd(options)
                   : hooks::power_sgd(options);
  };
  ReducerOptions unequal;
  unequal.bucket_caps_bytes = {64, 2000, 4000};
  ToldRank late(parameters_of(kUnequal), group, hook(), unequal);
  delay(late.parameters, group->rank());
  ToldRank calm(parameters_of(kUnequal), group, hook(), unequal);
  const int steps = full_run() ? 500 : 30;
  for (int step = 0; step < steps; ++step) {
    const Tensors gradients = random_gradients(kUnequal, step, group->rank());
    const Tensors results = late.step(gradients);
    ASSERT_TRUE(same_bits(results, calm.step(gradients))) << "step " << step;
    if (step % 10 == 9) {
      ASSERT_TRUE(same_on_ranks(group, results));
    }
  }
}

class PowerSgdBackends : public ::testing::TestWithParam<BackendKind> {};

TEST_P(PowerSgdBackends, DelaysChangeNothing) {
  run_ranks(
      GetParam(), kLateRanks,
      [](ProcessGroup& group) { train_late(group, false); }, parity_options());
}

TEST_P(PowerSgdBackends, DelaysChangeNothingInTheBatchedForm) {
  run_ranks(
      GetParam(), kLateRanks,
      [](ProcessGroup& group) { train_late(group, true); }, parity_options());
}

INSTANTIATE_TEST_SUITE_P(Kinds, PowerSgdBackends,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace lockstep

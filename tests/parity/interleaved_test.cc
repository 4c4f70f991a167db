// SPDX-License-Identifier: Apache-2.0
// An optimizer that steps inside of backward, on a lane of its own, against the
// same steps after backward.
#include <random>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "parity/parity_kinds.h"
#include "parity/trainee.h"
#include "support/interleaved_step.h"
#include "support/rank_team.h"

namespace lockstep::interleaved {
namespace {

using testing::Tensors;

constexpr int kRanks = 3;
constexpr double kRate = 0.01;

int step_count() { return env::boolean("LOCKSTEP_FULL") ? 500 : 60; }

Tensors make_weights() {
  Tensors weights;
  for (int64_t i = 0; i < 7; ++i) {
    weights.push_back(at::full({3 + i, 5}, 0.1 * static_cast<double>(i + 1))
                          .set_requires_grad(true));
  }
  return weights;
}

at::Tensor loss_of(const Tensors& weights, int step, int rank) {
  at::Tensor loss = at::zeros({});
  for (const at::Tensor& one : weights) {
    loss = loss + (one * one).sum() * (rank + 1) + one.sin().sum() * step;
  }
  return loss * 0.01;
}

// Each gradient may come late, by its rank's own luck.
void add_delays(const Tensors& weights, int rank) {
  const auto random = std::make_shared<std::mt19937>(rank);
  for (const at::Tensor& one : weights) {
    one.register_hook([random](const at::Tensor& gradient) {
      if ((*random)() % 4 == 0) {
        std::this_thread::sleep_for(
            std::chrono::microseconds((*random)() % 500));
      }
      return gradient;
    });
  }
}

void train(ProcessGroup& group) {
  testing::use_one_thread();
  ReducerOptions options;
  options.bucket_caps_bytes = {64, 200};
  const Tensors weights = make_weights();
  const Tensors expected = make_weights();
  add_delays(weights, group.rank());
  Reducer reducer(weights, group.shared_from_this(), options);
  reducer.register_comm_hook(testing::InterleavedStep(kRate), "interleaved");
  Reducer plain(expected, group.shared_from_this(), options);
  const auto step = [&](Reducer& one, const Tensors& all, int number) {
    for (const at::Tensor& weight : all) weight.mutable_grad().reset();
    one.prepare_for_forward();
    const at::Tensor loss = loss_of(all, number, group.rank());
    one.prepare_for_backward({loss});
    loss.backward();
  };
  for (int i = 0; i < step_count(); ++i) {
    step(reducer, weights, i);
    step(plain, expected, i);
    for (size_t p = 0; p < weights.size(); ++p) {
      expected[p].detach().sub_(expected[p].grad(), kRate);
      ASSERT_TRUE(at::equal(weights[p], expected[p])) << "step " << i;
    }
  }
  EXPECT_TRUE(testing::all_agree(group, weights));
}

class Interleaved : public ::testing::TestWithParam<testing::BackendKind> {};

TEST_P(Interleaved, StepsInBackwardAreThoseAfterIt) {
  testing::run_ranks(GetParam(), kRanks, train, parity_options());
}

INSTANTIATE_TEST_SUITE_P(Backends, Interleaved,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace lockstep::interleaved

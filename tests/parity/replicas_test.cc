// SPDX-License-Identifier: Apache-2.0
// Ranks that are late at random places stay replicas of each other.
#include <chrono>
#include <memory>
#include <random>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "parity/parity_kinds.h"
#include "parity/trainee.h"
#include "support/rank_team.h"

namespace lockstep::replicas {
namespace {

using testing::Graph;
using testing::Reset;
using testing::Tensors;

constexpr int kRanks = 3;
constexpr int kSteps = 200;

// Loses a little time now and then, as its seed says.
class Dawdler {
 public:
  explicit Dawdler(int rank) : random_(static_cast<uint32_t>(rank)) {}

  void dawdle() {
    if (random_() % 4 != 0) return;
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::microseconds(random_() % 1000);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }

 private:
  std::mt19937 random_;
};

void train(ProcessGroup& group, const testing::ModelKind& kind, Graph graph) {
  testing::use_one_thread();
  const auto model = kind.make(3, at::kFloat);
  const Tensors& parameters = model->parameters();
  const auto dawdler = std::make_shared<Dawdler>(group.rank());
  for (const at::Tensor& parameter : parameters) {
    parameter.register_hook([dawdler](const at::Tensor& gradient) {
      dawdler->dawdle();
      return gradient;
    });
  }
  ReducerOptions options = testing::reducer_options(*model, graph, true);
  options.bucket_caps_bytes = {256};
  Reducer reducer(parameters, group.shared_from_this(), options);
  int differing = 0;
  for (int step = 0; step < kSteps; ++step) {
    testing::reset_gradients(parameters,
                             step % 2 == 0 ? Reset::kZero : Reset::kUndefine);
    reducer.prepare_for_forward();
    dawdler->dawdle();
    const at::Tensor loss = model->loss(step, group.rank());
    reducer.prepare_for_backward({loss});
    dawdler->dawdle();
    loss.backward();
    const Tensors gradients = testing::gradients_of(parameters);
    if (!testing::all_agree(group, gradients)) ++differing;
    testing::descend(parameters);
  }
  EXPECT_EQ(differing, 0) << "steps in which gradients differ";
  EXPECT_TRUE(testing::all_agree(group, parameters)) << "weights differ";
}

class Replicas : public ::testing::TestWithParam<testing::BackendKind> {};

TEST_P(Replicas, StayEqual) {
  testing::RankTeam team(GetParam(), kRanks, parity_options());
  const auto train_all = [&](const char* model, Graph graph) {
    team.run(
        [&](ProcessGroup& group) {
          SCOPED_TRACE(model);
          train(group, testing::model_kind(model), graph);
        },
        std::chrono::seconds(200));
  };
  train_all("Mlp", Graph::kPlain);
  train_all("Branches", Graph::kSearch);
  train_all("Transformer", Graph::kStatic);
}

INSTANTIATE_TEST_SUITE_P(Backends, Replicas,
                         ::testing::ValuesIn(parity_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace lockstep::replicas

// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/grad_hooks.h"

#include <gmock/gmock.h>

#include "ddp/reducer/engine_task.h"
#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::some_parameters;
using testing::Tensors;
using ::testing::UnorderedElementsAre;

class Listener : public BackwardListener {
 public:
  void on_gradient(size_t parameter) override {
    gradients.push_back(parameter);
  }
  void on_output(uint64_t graph) override {
    outputs.push_back(graph);
    is_partial = EngineTask::current().is_partial();
  }

  std::vector<size_t> gradients;
  std::vector<uint64_t> outputs;
  bool is_partial = false;
};

TEST(GradHooks, TellOfEachGradientUntilTheyGo) {
  const Tensors parameters = some_parameters(2);
  const auto listener = std::make_shared<Listener>();
  {
    const GradHooks hooks(parameters, {"a", "b"}, listener);
    testing::loss_of(parameters, 1).backward();
    EXPECT_THAT(listener->gradients, UnorderedElementsAre(0, 1));
    EXPECT_TRUE(hooks.is_on(0, parameters[0]));
  }
  testing::loss_of(parameters, 1).backward();
  EXPECT_EQ(listener->gradients.size(), 2U);
}

TEST(GradHooks, ASharedParameterIsGivenOnce) {
  const at::Tensor one = testing::parameter({2});
  EXPECT_THAT(message_of<UsageError>([&] {
                GradHooks({one, one}, {"a", "b"}, std::make_shared<Listener>());
              }),
              HasSubstr("the same tensor"));
}

TEST(GradHooks, AConvertedParameterHasLostItsHook) {
  const Tensors parameters = some_parameters(1);
  const GradHooks hooks(parameters, {"a"}, std::make_shared<Listener>());
  parameters[0].set_data(at::ones({4}, at::kDouble));
  EXPECT_FALSE(hooks.is_on(0, parameters[0]));
}

TEST(WatchOutputs, TellsOfABackwardThatPassesThem) {
  const at::Tensor weight = testing::parameter({2});
  const auto listener = std::make_shared<Listener>();
  const at::Tensor output = weight * 2;
  const auto alive = watch_outputs({output, at::ones({1})}, 7, listener);
  EXPECT_FALSE(alive.expired());
  output.sum().backward();
  EXPECT_THAT(listener->outputs, ElementsAre(7));
  EXPECT_FALSE(listener->is_partial);
  EXPECT_TRUE(watch_outputs({at::ones({1})}, 8, listener).expired());
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// What autograd tells: gradients, outputs, and what it will not come to.
#include "ddp/reducer/grad_hooks.h"

#include <gmock/gmock.h>

#include "ddp/reducer/engine_task.h"
#include "ddp/reducer/unused_parameters.h"
#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::some_parameters;
using testing::Tensors;
using ::testing::UnorderedElementsAre;

class Listener : public BackwardListener {
 public:
  void on_gradient(size_t parameter) override {
    gradients.push_back(parameter);
    if (on_first && gradients.size() == 1) on_first();
  }
  void on_output(uint64_t graph) override {
    outputs.push_back(graph);
    is_partial = EngineTask::current().is_partial();
  }

  std::vector<size_t> gradients;
  std::vector<uint64_t> outputs;
  bool is_partial = false;
  std::function<void()> on_first;
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

TEST(EngineTask, IsThereInsideOfBackwardOnly) {
  EXPECT_FALSE(EngineTask::current());
  const Tensors parameters = some_parameters(1);
  const auto listener = std::make_shared<Listener>();
  const GradHooks hooks(parameters, {"a"}, listener);
  bool at_end = false;
  listener->on_first = [&] {
    const EngineTask task = EngineTask::current();
    EXPECT_TRUE(task);
    EXPECT_TRUE(task == EngineTask::current());
    EXPECT_FALSE(task.is_nested());
    EXPECT_TRUE(task.runs(hooks.accumulator(0)));
    EngineTask::at_end([&] { at_end = true; });
    EXPECT_FALSE(at_end);
  };
  testing::loss_of(parameters, 1).backward();
  EXPECT_TRUE(at_end);
}

TEST(UnusedParameters, AreThoseThatBackwardWillNotComeTo) {
  const Tensors parameters = some_parameters(3);
  const std::vector<std::string> names = {"a", "b", "c"};
  const auto listener = std::make_shared<Listener>();
  const GradHooks hooks(parameters, names, listener);
  UnusedParameters unused(0, names);
  std::vector<size_t> found;
  listener->on_first = [&] { found = unused.find(hooks, parameters); };
  const auto search = [&](const Tensors& used) {
    listener->gradients.clear();
    testing::loss_of(used, 1).backward();
    return found;
  };
  EXPECT_THAT(search({parameters[1]}), ElementsAre(0, 2));
  EXPECT_FALSE(unused.have_changed());
  EXPECT_THAT(search(parameters), IsEmpty());
  EXPECT_TRUE(unused.have_changed());
  EXPECT_THAT(*unused.last(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::detail

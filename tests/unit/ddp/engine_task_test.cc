// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/engine_task.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using testing::parameter;

// A tensor whose backward calls `f`.
at::Tensor calling(const at::Tensor& tensor, const std::function<void()>& f) {
  const at::Tensor copy = tensor * 1;
  copy.register_hook([f](const at::Tensor& gradient) {
    f();
    return gradient;
  });
  return copy;
}

TEST(EngineTask, IsThereInsideOfBackwardOnly) {
  EXPECT_FALSE(EngineTask::current());
  const at::Tensor weight = parameter({2});
  bool at_end = false;
  calling(weight,
          [&] {
            const EngineTask task = EngineTask::current();
            EXPECT_TRUE(task);
            EXPECT_TRUE(task == EngineTask::current());
            EXPECT_FALSE(task.is_nested());
            EXPECT_FALSE(task.is_partial());
            EngineTask::at_end([&] { at_end = true; });
            EXPECT_FALSE(at_end);
          })
      .sum()
      .backward();
  EXPECT_TRUE(at_end);
  EXPECT_FALSE(EngineTask::current());
}

TEST(EngineTask, ABackwardInsideOfAnotherIsATaskOfItsOwn) {
  const at::Tensor weight = parameter({2});
  EngineTask outer = EngineTask::current();
  bool was_inside = false;
  const auto in_inner = [&] {
    was_inside = true;
    EXPECT_TRUE(EngineTask::current().is_nested());
    EXPECT_FALSE(EngineTask::current() == outer);
  };
  const at::Tensor inner = calling(weight, in_inner).sum();
  const auto in_outer = [&] {
    outer = EngineTask::current();
    inner.backward();
    EXPECT_TRUE(EngineTask::current() == outer);
  };
  calling(weight, in_outer).sum().backward();
  EXPECT_TRUE(was_inside);
}

TEST(EngineTask, KnowsWhichGradientsItComputes) {
  using torch::autograd::impl::grad_accumulator;
  const at::Tensor a = parameter({2});
  const at::Tensor b = parameter({2});
  const auto node_a = grad_accumulator(a);
  const auto node_b = grad_accumulator(b);
  const auto node_of_another_graph = grad_accumulator(parameter({2}));
  int calls = 0;
  const auto in_backward = [&] {
    const EngineTask task = EngineTask::current();
    const bool for_b_only = ++calls == 2;
    EXPECT_EQ(task.is_partial(), for_b_only);
    EXPECT_EQ(task.runs(node_a.get()), !for_b_only);
    EXPECT_TRUE(task.runs(node_b.get()));
    EXPECT_FALSE(task.runs(node_of_another_graph.get()));
  };
  const at::Tensor loss = calling(a + b, in_backward).sum();
  loss.backward({}, /*retain_graph=*/true);
  torch::autograd::grad({loss}, {b});
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace lockstep::detail

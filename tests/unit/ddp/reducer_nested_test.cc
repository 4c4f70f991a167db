// SPDX-License-Identifier: Apache-2.0
// A backward inside of a backward, and other graphs that are more than a tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// x * weight, computed again in backward, where a backward() of its own brings
// the gradient of the weight: a piece under activation checkpointing. The outer
// graph does not know of the weight.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const at::Tensor* weight) {
    context->saved_data["x"] = x;
    context->saved_data["weight"] = *weight;
    return x * *weight;
  }
  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const at::AutoGradMode with_grad(true);
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor x =
        context->saved_data["x"].toTensor().detach().set_requires_grad(true);
    (x * weight).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

ReducerOptions options_for(bool static_graph, bool find_unused = false) {
  ReducerOptions options;
  options.bucket_caps_bytes = {16};
  options.static_graph = static_graph;
  options.find_unused_parameters = find_unused;
  options.names = {"a", "b", "c"};
  return options;
}

// Which of three weights are applied where: outside, recomputed, outside.
at::Tensor nested_loss(const Tensors& w, int rank) {
  const at::Tensor x = at::full({4}, rank + 1.0);
  return (Recomputed::apply(x * w[0], &w[1]) * w[2]).sum();
}

class Nested : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(StaticGraph, Nested, ::testing::Bool());

TEST_P(Nested, ABackwardInsideOfBackwardIsPartOfTheStep) {
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, options_for(GetParam()));
    for (int i = 0; i < 4; ++i) {
      clear_gradients(parameters);
      reducer.prepare_for_forward();
      const at::Tensor loss = nested_loss(parameters, group->rank());
      reducer.prepare_for_backward({loss});
      loss.backward();
      for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 1.5));
    }
  });
}

TEST(Nesting, APieceUsedTwiceNeedsAStaticGraph) {
  const auto twice = [](const Tensors& w, int rank) {
    const at::Tensor x = at::full({4}, rank + 1.0) * w[0];
    return (Recomputed::apply(Recomputed::apply(x, &w[1]), &w[1]) * w[2]).sum();
  };
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    {
      Reducer reducer(parameters, group, options_for(false));
      const at::Tensor loss = twice(parameters, group->rank());
      reducer.prepare_for_backward({loss});
      EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }),
                  AllOf(HasSubstr("mark a variable ready only once"),
                        HasSubstr("1 ('b')")));
    }
    group->barrier()->wait();
    Reducer reducer(parameters, group, options_for(true));
    for (int i = 0; i < 3; ++i) {
      clear_gradients(parameters);
      const at::Tensor loss = twice(parameters, group->rank());
      reducer.prepare_for_backward({loss});
      loss.backward();
      EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
      EXPECT_TRUE(is_all(parameters[1].grad(), 3));
    }
  });
}

// The search cannot see into a piece that is recomputed.
TEST(Nesting, AMisjudgedParameterIsExplained) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, options_for(false, true));
    const at::Tensor loss = nested_loss(parameters, 0);
    reducer.prepare_for_backward({loss});
    EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }),
                AllOf(HasSubstr("1 ('b')"), HasSubstr("misjudged")));
  });
}

// The inner backward has brought some gradients and the outer one fewer than
// all: found at the end of the outer one.
TEST(Nesting, AMissingParameterIsNamedByTheOutermostBackward) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, options_for(false));
    const at::Tensor x = at::ones({4}) * parameters[0];
    const at::Tensor loss = Recomputed::apply(x, &parameters[1]).sum();
    reducer.prepare_for_backward({loss});
    EXPECT_THAT(message_of<UsageError>([&] { loss.backward(); }),
                AllOf(HasSubstr("1 of 3"), HasSubstr("2 ('c')")));
  });
}

TEST(Nesting, CreateGraphIsWarnedOfAndAveraged) {
  const LogCapture log;
  for (const bool views : {true, false}) {
    on_ranks(2, [&](const SharedGroup& group) {
      const at::Tensor w = parameter({4});
      ReducerOptions options;
      options.gradient_as_bucket_view = views;
      Reducer reducer({w}, group, options);
      for (int i = 1; i <= 2; ++i) {
        const at::Tensor loss = (w * w).sum() * (group->rank() + 1) / 2;
        reducer.prepare_for_backward({loss});
        loss.backward({}, true, true);
        EXPECT_TRUE(is_all(w.grad(), 1.5 * i));
        EXPECT_FALSE(w.grad().requires_grad());
      }
    });
  }
  EXPECT_GE(log.count("gradients of gradients are not synchronised"), 1);
}

TEST(SeveralForwards, OneBackwardThroughBoth) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    for (int i = 0; i < 2; ++i) {
      clear_gradients(parameters);
      const at::Tensor one = loss_of(parameters, group->rank() + 1);
      reducer.prepare_for_backward({one});
      const at::Tensor two = loss_of(parameters, group->rank() + 1);
      reducer.prepare_for_backward({two});
      (one + two).backward();
      for (const auto& p : parameters) EXPECT_TRUE(is_all(p.grad(), 3));
    }
  });
}

TEST(SeveralForwards, ABackwardForEach) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    ReducerOptions options;
    options.find_unused_parameters = true;
    Reducer reducer(parameters, group, options);
    const at::Tensor one = loss_of(pick(parameters, {0}), group->rank() + 1);
    reducer.prepare_for_backward({one});
    const at::Tensor two = loss_of(parameters, group->rank() + 1);
    reducer.prepare_for_backward({two});
    two.backward();
    EXPECT_TRUE(is_all(parameters[1].grad(), 1.5));
    one.backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), 3));
    EXPECT_TRUE(is_all(parameters[1].grad(), 1.5));
    EXPECT_EQ(reducer.backwards(), 2);
  });
}

TEST(SeveralForwards, OneWithoutABackwardIsForgotten) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    reducer.prepare_for_backward({loss_of(parameters, 1)});
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
    // Nothing is expected any more.
    loss_of(parameters, 1).backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), 2.5));
    EXPECT_EQ(reducer.backwards(), 1);
  });
}

TEST(SeveralBackwards, AreReducedInTheLast) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    ReducerOptions options = options_for(false);
    options.backwards_per_forward = 2;
    Reducer reducer(parameters, group, options);
    for (int i = 0; i < 3; ++i) {
      clear_gradients(parameters);
      reducer.prepare_for_forward();
      const double mine = group->rank() + 1;
      const at::Tensor one = loss_of(pick(parameters, {0, 1}), mine);
      const at::Tensor two = loss_of(pick(parameters, {1, 2}), mine);
      reducer.prepare_for_backward({one, two});
      one.backward();
      EXPECT_TRUE(is_all(parameters[0].grad(), mine));
      two.backward();
      EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
      EXPECT_TRUE(is_all(parameters[1].grad(), 3));
      EXPECT_TRUE(is_all(parameters[2].grad(), 1.5));
    }
    const at::Tensor loss = loss_of(parameters, 1);
    reducer.prepare_for_backward({loss});
    loss.backward();
    EXPECT_THAT(
        message_of<UsageError>([&] { reducer.prepare_for_backward({loss}); }),
        HasSubstr("backwards_per_forward (it is 2)"));
  });
}

}  // namespace
}  // namespace lockstep

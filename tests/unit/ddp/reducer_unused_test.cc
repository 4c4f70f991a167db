// SPDX-License-Identifier: Apache-2.0
// Parameters that get no gradient: found by a search, or known of a static
// graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using namespace testing;

ReducerOptions searching(bool views = true) {
  ReducerOptions options;
  options.find_unused_parameters = true;
  options.gradient_as_bucket_view = views;
  return options;
}

void run_step(Reducer& reducer, const at::Tensor& loss) {
  reducer.prepare_for_forward();
  reducer.prepare_for_backward({loss});
  loss.backward();
}

// Passes values on, and no gradients back.
struct Undefined : torch::autograd::Function<Undefined> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                            const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      const torch::autograd::variable_list& /*gradients*/) {
    return {at::Tensor()};
  }
};

class Unused : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Views, Unused, ::testing::Bool());

// 0 is used by all, 1 by rank 1 only, 2 by nobody.
TEST_P(Unused, OnlyWhatNoRankUsesIsLeftAlone) {
  on_ranks(3, [&](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, searching(GetParam()));
    for (int i = 0; i < 3; ++i) {
      clear_gradients(parameters);
      const bool odd = group->rank() == 1;
      const std::vector<size_t> used =
          odd ? std::vector<size_t>{0, 1} : std::vector<size_t>{0};
      run_step(reducer, loss_of(pick(parameters, used), 3));
      EXPECT_TRUE(is_all(parameters[0].grad(), 3));
      EXPECT_TRUE(is_all(parameters[1].grad(), 1));
      EXPECT_FALSE(parameters[2].grad().defined());
    }
    EXPECT_TRUE(reducer.is_graph_static());
    run_step(reducer, loss_of(pick(parameters, {2}), 3));
    EXPECT_FALSE(reducer.is_graph_static());
  });
}

// A gradient of an earlier step stays to the bit, also where an average of
// equal values would not (three times a third).
TEST_P(Unused, AnOldGradientStaysWhatItWas) {
  on_ranks(3, [&](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching(GetParam()));
    run_step(reducer, loss_of(parameters, 0.1));
    const at::Tensor before = parameters[1].grad().clone();
    for (int i = 0; i < 3; ++i)
      run_step(reducer, loss_of(pick(parameters, {0}), 1));
    EXPECT_TRUE(at::equal(parameters[1].grad(), before));
    // And adds up where one rank uses the parameter again.
    const bool mine = group->rank() == 2;
    run_step(reducer,
             mine ? loss_of(parameters, 3) : loss_of(pick(parameters, {0}), 3));
    EXPECT_TRUE(at::allclose(parameters[1].grad(), before + 1));
  });
}

TEST(UnusedParameters, ARankMayUseNothingAtAll) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching());
    const at::Tensor x = at::ones({4}).set_requires_grad(true);
    const at::Tensor loss =
        group->rank() == 0 ? x.sum() : loss_of(parameters, 4);
    run_step(reducer, loss);
    for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 2));
  });
}

TEST(UnusedParameters, OutputsThatTheLossDoesNotUseAreNoHarm) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching());
    const at::Tensor used = loss_of(pick(parameters, {0}), 4);
    const at::Tensor dropped = loss_of(pick(parameters, {1}), 4);
    reducer.prepare_for_backward({used, dropped});
    used.backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), 4));
    EXPECT_FALSE(parameters[1].grad().defined());
  });
}

TEST(UnusedParameters, WhatNoSyncUsedCountsInTheNextReduction) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching());
    if (group->rank() == 0) {
      const auto guard = reducer.no_sync();
      run_step(reducer, loss_of(pick(parameters, {1}), 4));
      EXPECT_TRUE(is_all(reducer.local_used_map().slice(0, 1), 1));
    }
    run_step(reducer, loss_of(pick(parameters, {0}), 4));
    EXPECT_TRUE(is_all(parameters[1].grad(), 2));
    EXPECT_TRUE(is_all(reducer.local_used_map(), 0));
  });
}

// The graph has the parameter, and yet brings no gradient: none it stays.
TEST_P(Unused, AnUndefinedGradientIsNoUse) {
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching(GetParam()));
    const at::Tensor loss =
        (parameters[0] * Undefined::apply(parameters[1])).sum();
    run_step(reducer, loss);
    EXPECT_TRUE(is_all(parameters[0].grad(), 1));
    EXPECT_FALSE(parameters[1].grad().defined());
  });
}

TEST(UnusedParameters, AParameterMayBeFrozenLater) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching());
    run_step(reducer, loss_of(parameters, 1));
    parameters[1].set_requires_grad(false);
    clear_gradients(parameters);
    run_step(reducer, loss_of(parameters, 3));
    EXPECT_TRUE(is_all(parameters[0].grad(), 3));
    EXPECT_FALSE(parameters[1].grad().defined());
  });
}

TEST(UnusedParameters, ASearchThatFindsNothingIsMentionedOnce) {
  const LogCapture log;
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, searching());
    for (int i = 0; i < 3; ++i) run_step(reducer, loss_of(parameters, 1));
  });
  EXPECT_EQ(log.count("all parameters are used"), 1);
}

ReducerOptions static_graph() {
  ReducerOptions options;
  options.static_graph = true;
  options.bucket_caps_bytes = {16};
  return options;
}

TEST(StaticGraph, LearnsWhatIsUnused) {
  const LogCapture log;
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(4);
    Reducer reducer(parameters, group, static_graph());
    const bool odd = group->rank() == 1;
    const Tensors used = pick(parameters, odd ? std::vector<size_t>{0, 3, 1}
                                              : std::vector<size_t>{0, 3});
    for (int i = 0; i < 4; ++i) {
      clear_gradients(parameters);
      run_step(reducer, loss_of(used, 4));
      EXPECT_TRUE(is_all(parameters[0].grad(), 4));
      EXPECT_TRUE(is_all(parameters[1].grad(), 2));
      EXPECT_FALSE(parameters[2].grad().defined());
      EXPECT_TRUE(is_all(parameters[3].grad(), 4));
    }
    // Rebuilt in the order of rank 0, those it does not use at the end.
    EXPECT_FALSE(reducer.should_rebuild_buckets());
    EXPECT_EQ(reducer.bucket_plan().buckets[3].items[0], 1u);
  });
  EXPECT_EQ(log.count("parameters without a gradient"), 2);  // ranks
}

TEST(StaticGraph, HooksGetTheRightIndexInTheFirstStep) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, static_graph());
    std::vector<size_t> indices;
    std::vector<bool> last;
    const auto plain = hooks::all_reduce(reducer.group());
    reducer.register_comm_hook([&](const GradBucket& bucket) {
      indices.push_back(bucket.index());
      last.push_back(bucket.is_last());
      return plain(bucket);
    });
    run_step(reducer, loss_of(parameters, 1));
    EXPECT_THAT(indices, ::testing::ElementsAre(0, 1, 2));
    EXPECT_THAT(last, ::testing::ElementsAre(false, false, true));
  });
}

TEST(StaticGraph, AGraphThatGrowsOrShrinksIsAnError) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    {
      Reducer reducer(parameters, group, static_graph());
      run_step(reducer, loss_of(pick(parameters, {0}), 1));
      EXPECT_THAT(message_of<UsageError>(
                      [&] { run_step(reducer, loss_of(parameters, 1)); }),
                  HasSubstr("training graph has changed"));
    }
    group->barrier()->wait();
    {
      Reducer reducer(parameters, group, static_graph());
      run_step(reducer, loss_of(parameters, 1));
      EXPECT_THAT(
          message_of<UsageError>(
              [&] { run_step(reducer, loss_of(pick(parameters, {0}), 1)); }),
          ::testing::AllOf(HasSubstr("Expected to have finished reduction"),
                           HasSubstr("the graph has changed"),
                           HasSubstr("parameter 1")));
    }
    group->barrier()->wait();
    Reducer reducer(parameters, group, static_graph());
    clear_gradients(parameters);
    run_step(reducer, loss_of(parameters, 3));
    EXPECT_TRUE(is_all(parameters[1].grad(), 3));
  });
}

TEST(StaticGraph, MayBeSetBeforeTheFirstStepAndNeedsToKnowTheEnd) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    reducer.set_static_graph();
    EXPECT_THAT(
        message_of<UsageError>([&] { reducer.prepare_for_backward({}); }),
        HasSubstr("needs the loss"));
    for (int i = 0; i < 2; ++i) {
      clear_gradients(parameters);
      run_step(reducer, loss_of(pick(parameters, {0}), group->rank() + 1));
      EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
    }
  });
}

TEST(StaticGraph, ASearchBesideItIsNotNeeded) {
  const LogCapture log;
  on_ranks(1, [](const SharedGroup& group) {
    ReducerOptions options = static_graph();
    options.find_unused_parameters = true;
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group, options);
    for (int i = 0; i < 2; ++i)
      run_step(reducer, loss_of(pick(parameters, {0}), 1));
    EXPECT_FALSE(parameters[1].grad().defined());
  });
  EXPECT_EQ(log.count("find_unused_parameters is not needed"), 1);
}

}  // namespace
}  // namespace lockstep

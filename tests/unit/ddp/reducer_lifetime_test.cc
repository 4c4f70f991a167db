// SPDX-License-Identifier: Apache-2.0
// Who may go first: the Reducer, the parameters, the group, the graph.
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using namespace testing;

TEST(ReducerLifetime, GradientsOutliveReducerAndGroup) {
  Tensors gradients;
  on_ranks(1, [&](SharedGroup group) {
    Tensors parameters = some_parameters(2);
    std::optional<Reducer> reducer(std::in_place, parameters, group);
    step(*reducer, parameters, 0);
    reducer.reset();
    group.reset();
    loss_of(parameters, 1).backward();  // no hook is left
    for (const auto& one : parameters) gradients.push_back(one.grad());
    parameters.clear();
  });
  for (const auto& one : gradients) EXPECT_TRUE(is_all(one, 2));
}

TEST(ReducerLifetime, ParametersMayGoFirst) {
  on_ranks(1, [](const SharedGroup& group) {
    Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    step(reducer, parameters, 0);
    parameters.clear();
    reducer.remove_autograd_hooks();
  });
}

TEST(ReducerLifetime, AGraphMayOutliveTheReducerThatWatchesIt) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    const at::Tensor loss = loss_of(parameters, 1);
    {
      Reducer reducer(parameters, group);
      reducer.prepare_for_backward({loss});
    }
    loss.backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), 1));
  });
}

TEST(ReducerLifetime, TwoInARowAndWithoutHooksNothingIsReduced) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    for (int i = 0; i < 3; ++i) {
      Reducer reducer(parameters, group);
      clear_gradients(parameters);
      step(reducer, parameters, group->rank());
      EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
      reducer.remove_autograd_hooks();
      clear_gradients(parameters);
      step(reducer, parameters, group->rank());
      EXPECT_TRUE(is_all(parameters[0].grad(), group->rank() + 1));
    }
  });
}

// Destroyed by its own hook, with autograd in the middle of the hooks: the
// rest of backward is this rank's alone, and the others are told.
TEST(ReducerLifetime, MayEndInsideOfItsOwnHook) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    std::optional<Reducer> reducer(std::in_place, parameters, group, options);
    const bool leaves = group->rank() == 0;
    const auto plain = hooks::all_reduce(reducer->group());
    reducer->register_comm_hook([&](const GradBucket& bucket) {
      if (leaves && bucket.index() == 1) reducer.reset();
      return plain(bucket);
    });
    const at::Tensor loss = loss_of(parameters, 1);
    reducer->prepare_for_backward({loss});
    if (leaves) {
      loss.backward();
      for (const auto& one : parameters) EXPECT_TRUE(one.grad().defined());
      loss_of(parameters, 1).backward();
    } else {
      EXPECT_THAT(message_of<AbortedError>([&] { loss.backward(); }),
                  HasSubstr("destroyed in the middle of a backward"));
    }
    group->barrier()->wait();
    reducer.reset();
    clear_gradients(parameters);
    Reducer again(parameters, group);
    step(again, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

TEST(ReducerLifetime, MayEndInTheMiddleOfAStep) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    ReducerOptions options;
    options.bucket_caps_bytes = {16};
    {
      Reducer reducer(parameters, group, options);
      reducer.prepare_for_backward({});
      reducer.mark_ready(1);
      group->barrier()->wait();
    }
    step(*std::make_unique<Reducer>(parameters, group), parameters,
         group->rank());
  });
}

}  // namespace
}  // namespace lockstep

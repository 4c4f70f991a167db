// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using namespace testing;

ReducerOptions tiny_buckets() {
  ReducerOptions options;
  options.bucket_caps_bytes = {16};
  return options;
}

TEST(Reducer, AveragesGradientsOverRanks) {
  on_ranks(3, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(5);
    Reducer reducer(parameters, group, tiny_buckets());
    for (int i = 0; i < 3; ++i) {
      step(reducer, parameters, group->rank());
      for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 2));
      clear_gradients(parameters);
    }
    EXPECT_EQ(reducer.iterations(), 3);
    EXPECT_EQ(reducer.backwards(), 3);
  });
}

TEST(Reducer, KeepsTypesInBucketsOfTheirOwn) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = {parameter({3}), parameter({3}, at::kDouble),
                                parameter({3}, at::kHalf),
                                parameter({3}, at::kBFloat16)};
    Reducer reducer(parameters, group);
    EXPECT_EQ(reducer.bucket_plan().buckets.size(), 4u);
    step(reducer, parameters, group->rank());
    for (const auto& one : parameters) {
      EXPECT_TRUE(is_all(one.grad(), 1.5));
      EXPECT_EQ(one.grad().scalar_type(), one.scalar_type());
    }
  });
}

// The first plan guesses; the first backward shows. Parameter 0 is used last in
// forward here, so its gradient comes first.
TEST(Reducer, RebuildsBucketsOnceInTheOrderOfArrival) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group, tiny_buckets());
    std::vector<BucketPlan> notices;
    reducer.on_plan_change([&](const BucketPlan& p) { notices.push_back(p); });
    const auto run = [&] {
      reducer.prepare_for_forward();
      at::Tensor x = at::ones({4});
      for (const int i : {1, 2, 0}) {
        x = x * parameters[static_cast<size_t>(i)];
      }
      const at::Tensor loss = x.sum() * (group->rank() + 1);
      reducer.prepare_for_backward({loss});
      loss.backward();
      for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 1.5));
      for (const auto& one : parameters) one.grad().zero_();
    };
    run();
    EXPECT_EQ(reducer.bucket_plan().buckets[0].items[0], 2u);
    EXPECT_TRUE(reducer.should_rebuild_buckets());
    const void* before = parameters[0].grad().data_ptr();
    run();
    EXPECT_FALSE(reducer.should_rebuild_buckets());
    std::vector<size_t> order;
    for (const auto& one : reducer.bucket_plan().buckets) {
      order.push_back(one.items[0]);
    }
    EXPECT_THAT(order, ElementsAre(0, 2, 1));
    EXPECT_NE(parameters[0].grad().data_ptr(), before);
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0], reducer.bucket_plan());
    run();
    EXPECT_EQ(notices.size(), 1u);
  });
}

TEST(Reducer, AGivenPlanStays) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    ReducerOptions options;
    options.bucket_plan.emplace();
    options.bucket_plan->buckets = {{{1}, 1}, {{2, 0}, 1}};
    Reducer reducer(parameters, group, options);
    for (int i = 0; i < 3; ++i) step(reducer, parameters, group->rank());
    EXPECT_EQ(reducer.bucket_plan(), *options.bucket_plan);
  });
}

TEST(Reducer, NoSyncAccumulatesHere) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    const int mine = group->rank() + 1;
    {
      const auto outer = reducer.no_sync();
      {
        const auto inner = reducer.no_sync();
        step(reducer, parameters, group->rank());
      }
      step(reducer, parameters, group->rank());
      EXPECT_TRUE(is_all(parameters[0].grad(), 2 * mine));
    }
    step(reducer, parameters, group->rank());
    for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 4.5));
    EXPECT_EQ(reducer.iterations(), 1);
  });
}

// Whatever was prepared before, on one rank or all: inside no_sync() nothing is
// reduced, nor in a backward of which nobody spoke.
TEST(Reducer, AnOldForwardDoesNotMakeALocalBackwardOurs) {
  for (const bool keeps : {false, true}) {
    on_ranks(2, [&](const SharedGroup& group) {
      const Tensors parameters = some_parameters(2);
      Reducer reducer(parameters, group);
      const int mine = group->rank() + 1;
      at::Tensor kept;
      if (group->rank() == 0) {  // an evaluation with gradients on, say
        kept = loss_of(parameters, 1);
        reducer.prepare_for_backward({kept});
        if (!keeps) kept.reset();
      }
      {
        const auto guard = reducer.no_sync();
        step(reducer, parameters, group->rank());
      }
      EXPECT_TRUE(is_all(parameters[0].grad(), mine));
      step(reducer, parameters, group->rank());
      EXPECT_TRUE(is_all(parameters[0].grad(), 3));
      loss_of(parameters, mine).backward();
      EXPECT_TRUE(is_all(parameters[0].grad(), 3 + mine));
      EXPECT_EQ(reducer.backwards(), 1);
    });
  }
}

// Clipping and home-made zero_grad() do that.
TEST(Reducer, AGradientMayBeGivenOtherMemory) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    for (int i = 0; i < 3; ++i) {
      step(reducer, parameters, group->rank());
      for (const auto& one : parameters) {
        EXPECT_TRUE(is_all(one.grad(), 1.5));
        one.grad().set_data(at::zeros({4}));
      }
    }
  });
}

TEST(Reducer, ABackwardThatWasNotPreparedIsLeftAlone) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    loss_of(parameters, group->rank() + 1).backward();
    EXPECT_TRUE(is_all(parameters[0].grad(), group->rank() + 1));
    EXPECT_EQ(reducer.backwards(), 0);
  });
}

TEST(Reducer, GradientsOfGradFunctionsDoNotCount) {
  on_ranks(2, [](const SharedGroup& group) {
    const at::Tensor w = parameter({4});
    const at::Tensor x = at::full({4}, 3.0).set_requires_grad(true);
    Reducer reducer({w}, group);
    const at::Tensor out = (w * w * x).sum() * (group->rank() + 1);
    reducer.prepare_for_backward({out});
    const auto slope = torch::autograd::grad({out}, {x}, {}, true, true);
    EXPECT_EQ(reducer.backwards(), 0);
    (out + slope[0].sum()).backward();  // 2wx + 2w, times rank + 1
    EXPECT_TRUE(is_all(w.grad(), 12));
  });
}

TEST(Reducer, WorksWithoutOutputs) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    const at::Tensor loss = loss_of(parameters, group->rank() + 1);
    reducer.prepare_for_backward({});
    loss.backward();
    for (const auto& one : parameters) EXPECT_TRUE(is_all(one.grad(), 1.5));
  });
}

TEST(Reducer, GradientsMayBeMadeByHandAndLiveInAMap) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    const auto map = std::make_shared<GradientMap>();
    reducer.set_gradient_map(map);
    for (int i = 0; i < 2; ++i) {
      reducer.prepare_for_backward({});
      for (size_t p = 0; p < parameters.size(); ++p) {
        (*map)[parameters[p]] = at::full({4}, group->rank() + 1.0);
        reducer.mark_ready(p);
      }
      reducer.finish_backward();
      for (const auto& one : parameters) {
        EXPECT_TRUE(is_all((*map)[one], 1.5));
        EXPECT_FALSE(one.grad().defined());
      }
    }
    reducer.set_gradient_map(nullptr);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
    EXPECT_TRUE(is_all((*map)[parameters[0]], 1.5));
    // Each place keeps its own.
    reducer.set_gradient_map(map);
    reducer.prepare_for_backward({});
    for (size_t p = 0; p < parameters.size(); ++p) {
      (*map)[parameters[p]].fill_(10);
      reducer.mark_ready(p);
    }
    reducer.finish_backward();
    EXPECT_TRUE(is_all((*map)[parameters[0]], 10));
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

TEST(Reducer, AMapThatBackwardDoesNotFillIsAnError) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(1);
    Reducer reducer(parameters, group);
    reducer.set_gradient_map(std::make_shared<GradientMap>());
    EXPECT_THAT(message_of<UsageError>([&] { step(reducer, parameters, 0); }),
                ::testing::HasSubstr("mark_ready()"));
  });
}

TEST(Reducer, TellsWhenEachGradientCame) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    step(reducer, parameters, 0);
    const auto times = reducer.backward_times();
    ASSERT_EQ(times.size(), 2u);
    for (const auto time : times) EXPECT_GT(time.count(), 0);
  });
}

TEST(Reducer, MovesToAnotherGroup) {
  on_ranks(4, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 2.5));
    reducer.update_process_group(group->split(group->rank() % 2));
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), group->rank() % 2 == 0 ? 2 : 3));
  });
}

// One that resets early does not end what others still wait for.
TEST(Reducer, AResetOfAHealthyGroupHurtsNobody) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    ReducerOptions options;
    options.find_unused_parameters = true;
    Reducer reducer(parameters, group, options);
    reducer.register_comm_hook(hooks::all_reduce(reducer.group()), "first");
    for (int i = 0; i < 50; ++i) {
      clear_gradients(parameters);
      const bool odd = group->rank() == 1;
      const at::Tensor loss =
          loss_of(odd ? pick(parameters, {0}) : parameters, 2);
      reducer.prepare_for_backward({loss});
      loss.backward();
      EXPECT_TRUE(is_all(parameters[1].grad(), 1));
      reducer.reset_state();
      // The hook's group has gone with the reset.
      reducer.register_comm_hook(hooks::all_reduce(reducer.group()), "next");
    }
  });
}

TEST(Reducer, TheDivisorHoldsForOneBackward) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    Reducer reducer(parameters, group);
    reducer.set_divisor(1);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 3));
    clear_gradients(parameters);
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 1.5));
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/optimizer_in_backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/hook/compress.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::in_backward {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace lockstep::testing;

hooks::OptimizerInBackward make_adam() {
  return hooks::OptimizerInBackward([](std::vector<at::Tensor> parameters) {
    return std::make_unique<torch::optim::Adam>(std::move(parameters), 0.1);
  });
}

Tensors make_weights() {
  Tensors weights;
  for (int64_t i = 0; i < 5; ++i) {
    weights.push_back(at::full({2, 3 + i}, 0.1 * static_cast<double>(i + 1))
                          .set_requires_grad(true));
  }
  return weights;
}

at::Tensor loss_of_step(const Tensors& weights, int step, int rank) {
  at::Tensor loss = at::zeros({});
  for (const at::Tensor& one : weights) {
    loss = loss + (one * one).sum() * (rank + 1) + one.sin().sum() * step;
  }
  return loss;
}

void run_backward(Reducer& reducer, const Tensors& weights, int step,
                  int rank) {
  reducer.prepare_for_forward();
  const at::Tensor loss = loss_of_step(weights, step, rank);
  reducer.prepare_for_backward({loss});
  loss.backward();
}

class InBackward : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Views, InBackward, ::testing::Bool());

// Bit by bit, through a rebuild of buckets and with accumulation.
TEST_P(InBackward, StepsAreThoseAfterBackward) {
  on_ranks(2, [&](const SharedGroup& group) {
    ReducerOptions options;
    options.bucket_caps_bytes = {40, 100};
    options.gradient_as_bucket_view = GetParam();
    const Tensors weights = make_weights();
    const Tensors expected = make_weights();
    Reducer reducer(weights, group, options);
    reducer.register_comm_hook(make_adam().hook());
    Reducer plain(expected, group, options);
    torch::optim::Adam adam(expected, 0.1);
    for (int i = 0; i < 12; ++i) {
      const auto accumulate = [&](Reducer& one, const Tensors& all) {
        const auto guard = one.no_sync();
        run_backward(one, all, i + 100, group->rank());
      };
      if (i % 3 == 1) {
        accumulate(reducer, weights);
        accumulate(plain, expected);
      }
      run_backward(reducer, weights, i, group->rank());
      run_backward(plain, expected, i, group->rank());
      adam.step();
      adam.zero_grad();
      for (size_t p = 0; p < weights.size(); ++p) {
        ASSERT_TRUE(at::equal(weights[p], expected[p])) << i << ", " << p;
        EXPECT_FALSE(weights[p].grad().defined());
      }
    }
  });
}

// When the last bucket is launched, the gradients of the first, which it has
// waited for, are gone.
TEST_P(InBackward, DropsGradientsWhileBackwardRuns) {
  on_ranks(1, [&](const SharedGroup& group) {
    const Tensors weights = make_weights();
    ReducerOptions options;
    options.bucket_caps_bytes = {4};  // a bucket for each
    options.gradient_as_bucket_view = GetParam();
    Reducer reducer(weights, group, options);
    Future<at::Tensor> first;
    int checked = 0;
    const CommHook steps = make_adam().hook();
    reducer.register_comm_hook(
        [&](const GradBucket& bucket, const HookContext& context) {
          auto result = steps(bucket, context);
          if (bucket.index() == 0) first = result;
          if (bucket.is_last()) {
            first.get(Deadline::in(std::chrono::seconds(9)));
            EXPECT_FALSE(weights.back().grad().defined());
            ++checked;
          }
          return result;
        });
    reducer.set_optimizer_in_backward();
    run_backward(reducer, weights, 1, 0);
    EXPECT_EQ(checked, 1);
  });
}

TEST(InBackward, OptimizersCanBeChangedBetweenSteps) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors weights = some_parameters(3);
    Reducer reducer(weights, group);
    const hooks::OptimizerInBackward steps(
        [](std::vector<at::Tensor> parameters) {
          return std::make_unique<torch::optim::SGD>(std::move(parameters), 1);
        });
    reducer.register_comm_hook(steps.hook());
    step(reducer, weights, 0);
    EXPECT_TRUE(is_all(weights[2], 0));
    size_t count = 0;
    steps.for_each([&](size_t, torch::optim::Optimizer& optimizer) {
      static_cast<torch::optim::SGDOptions&>(
          optimizer.param_groups()[0].options())
          .lr(0.5);
      ++count;
    });
    EXPECT_EQ(count, weights.size());
    step(reducer, weights, 0);
    EXPECT_TRUE(is_all(weights[2], -0.5));
  });
}

TEST(InBackward, WorksAroundACompressingHook) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors weights = some_parameters(2);
    Reducer reducer(weights, group);
    const hooks::OptimizerInBackward steps(
        [](std::vector<at::Tensor> parameters) {
          return std::make_unique<torch::optim::SGD>(std::move(parameters), 1);
        });
    const CommHook hook = steps.hook(hooks::bf16_compress());
    EXPECT_EQ(hook.name(), "optimizer_in_backward(bf16_compress)");
    reducer.register_comm_hook(hook);
    step(reducer, weights, group->rank());
    EXPECT_TRUE(is_all(weights[1], 1 - 1.5));
  });
}

TEST(InBackward, WhatAnOptimizerThrowsNamesBucketAndHookOnAllRanks) {
  struct Broken : torch::optim::SGD {
    using SGD::SGD;
    at::Tensor step(LossClosure /*closure*/) override {
      throw std::runtime_error("no more ink");
    }
  };
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors weights = some_parameters(2);
    Reducer reducer(weights, group);
    const bool is_broken = group->rank() == 1;
    const hooks::OptimizerInBackward steps(
        [&](std::vector<at::Tensor> parameters)
            -> std::unique_ptr<torch::optim::Optimizer> {
          if (is_broken) return std::make_unique<Broken>(parameters, 1);
          return std::make_unique<torch::optim::SGD>(parameters, 1);
        });
    reducer.register_comm_hook(steps.hook());
    std::string text;
    try {
      step(reducer, weights, group->rank());
      // The other rank may be done before it hears of it.
      step(reducer, weights, group->rank());
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_THAT(text, AllOf(HasSubstr("no more ink"),
                            HasSubstr("bucket 0 of 1, hook "
                                      "'optimizer_in_backward(all_reduce)'")))
        << group->rank();
  });
}

TEST(InBackward, NeedsAFunctionThatMakesOptimizers) {
  EXPECT_THAT(
      message_of<UsageError>([] { hooks::OptimizerInBackward(nullptr); }),
      HasSubstr("needs a function"));
  on_ranks(1, [](const SharedGroup& group) {
    Reducer reducer(some_parameters(1), group);
    const hooks::OptimizerInBackward none(
        [](std::vector<at::Tensor>) { return nullptr; });
    reducer.register_comm_hook(none.hook());
    EXPECT_THAT(
        message_of<UsageError>([&] { step(reducer, reducer.parameters(), 0); }),
        HasSubstr("returned null for parameter 0"));
  });
}

}  // namespace
}  // namespace lockstep::in_backward

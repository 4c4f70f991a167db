// SPDX-License-Identifier: Apache-2.0
// Where gradients lie, and how they get there.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/ddp/reducer.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using namespace testing;

TEST(ReducerMemory, GradientsLiveInTheBucket) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(3);
    Reducer reducer(parameters, group);
    step(reducer, parameters, group->rank());
    const auto bucket = reducer.grad_buckets(false)[0];
    EXPECT_TRUE(is_all(bucket.buffer(), 1.5));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(bucket.parameters()[i].grad().data_ptr(),
                bucket.gradients()[i].data_ptr());
    }
    // Zeroed in place, as zero_grad() does, they stay there.
    for (const auto& one : parameters) one.mutable_grad().detach_().zero_();
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(reducer.grad_buckets(false)[0].buffer(), 1.5));
  });
}

TEST(ReducerMemory, WithoutViewsGradientsHaveTheirOwnMemory) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    ReducerOptions options;
    options.gradient_as_bucket_view = false;
    Reducer reducer(parameters, group, options);
    for (int i = 1; i <= 2; ++i) {
      step(reducer, parameters, group->rank());
      // Nothing was cleared: the second backward adds to the first average.
      for (const auto& one : parameters) {
        EXPECT_TRUE(is_all(one.grad(), 1.5 * i));
      }
    }
    const at::Tensor gradient = parameters[0].grad();
    reducer.grad_buckets(true);
    EXPECT_TRUE(is_all(gradient, 3));
  });
}

TEST(ReducerMemory, TakesOverGradientsThatExistAlready) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = some_parameters(2);
    parameters[0].mutable_grad() = at::full({4}, 10.0);
    Reducer reducer(parameters, group);
    EXPECT_TRUE(is_all(parameters[0].grad(), 10));
    EXPECT_FALSE(parameters[1].grad().defined());
    step(reducer, parameters, group->rank());
    EXPECT_TRUE(is_all(parameters[0].grad(), 11.5));
    EXPECT_TRUE(is_all(parameters[1].grad(), 1.5));
  });
}

TEST(ReducerMemory, KeepsTheLayoutOfChannelsLastParameters) {
  on_ranks(2, [](const SharedGroup& group) {
    const at::Tensor weight = at::ones({2, 3, 4, 4})
                                  .contiguous(at::MemoryFormat::ChannelsLast)
                                  .set_requires_grad(true);
    Reducer reducer({weight}, group);
    step(reducer, {weight}, group->rank());
    EXPECT_EQ(weight.grad().strides(), weight.strides());
    EXPECT_TRUE(is_all(weight.grad(), 1.5));
  });
}

// More than caches hold, unless they have 400 MB, is written past them, in
// vectors; counts that do not fill the last one, and a gradient that begins
// within one.
TEST(ReducerMemory, CopiesMoreThanCachesHold) {
  constexpr int64_t kCount = (int64_t{12} << 20) + 3;
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = {parameter({kCount}), parameter({5})};
    Reducer reducer(parameters, group);
    const at::Tensor factors = at::arange(kCount) % 1024;
    for (int i = 0; i < 2; ++i) {
      const at::Tensor loss = ((parameters[0] * factors).sum() +
                               (parameters[1] * at::arange(5)).sum()) *
                              (group->rank() + 1);
      reducer.prepare_for_backward({loss});
      loss.backward();
      EXPECT_TRUE(parameters[0].grad().equal(factors * 1.5));
      EXPECT_TRUE(parameters[1].grad().equal(at::arange(5) * 1.5));
      clear_gradients(parameters);
    }
  });
}

// Its memory holds other values than it has.
TEST(ReducerMemory, CopiesTheValuesOfANegatedView) {
  on_ranks(2, [](const SharedGroup& group) {
    const at::Tensor one = parameter({4});
    Reducer reducer({one}, group);
    reducer.prepare_for_backward({});
    one.mutable_grad() = at::_neg_view(at::full({4}, group->rank() + 1.0));
    reducer.mark_ready(0);
    reducer.finish_backward();
    EXPECT_TRUE(is_all(one.grad(), -1.5));
  });
}

}  // namespace
}  // namespace lockstep

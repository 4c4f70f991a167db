// SPDX-License-Identifier: Apache-2.0
// The lossy hooks in a Reducer.
#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ddp/reducer.h"
#include "lockstep/hook/quantize.h"
#include "lockstep/hook/sign.h"
#include "lockstep/hook/top_k.h"
#include "lockstep/tensor/collectives.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::hooks {
namespace {

using lockstep::testing::clear_gradients;
using lockstep::testing::message_of;
using lockstep::testing::on_ranks;
using lockstep::testing::parameter;
using lockstep::testing::SharedGroup;
using lockstep::testing::Tensors;
using ::testing::AllOf;
using ::testing::HasSubstr;

// All ranks start from ones and pull parameter i toward sin(i, i + 1, ...),
// each with an offset of its own; on average the offsets are 0.
at::Tensor target_of(size_t i, const at::Tensor& one) {
  return at::arange(one.numel(), at::kDouble)
      .add(static_cast<double>(i))
      .sin()
      .to(one.scalar_type())
      .view(one.sizes());
}
at::Tensor pull_of_rank(const Tensors& parameters, double offset) {
  at::Tensor loss = at::zeros({});
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor target = target_of(i, parameters[i]) + offset;
    loss = loss + (parameters[i] - target).square().sum().to(at::kFloat) / 2;
  }
  return loss;
}

double distance_to_targets(const Tensors& parameters) {
  double distance = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor gap = parameters[i] - target_of(i, parameters[i]);
    distance = std::max(distance, gap.abs().max().item<double>());
  }
  return distance;
}

// Trains parameters in several buckets, one of them of doubles; buckets are
// rebuilt after the first step.
void expect_training(const std::function<CommHook()>& make_hook, double rate,
                     int steps, double tolerance) {
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = {parameter({40, 5}), parameter({70}),
                                parameter({3}, at::kDouble), parameter({130})};
    ReducerOptions options;
    options.bucket_caps_bytes = {800};
    Reducer reducer(parameters, group, options);
    reducer.register_comm_hook(make_hook());
    EXPECT_GT(distance_to_targets(parameters), 1.9);
    for (int i = 0; i < steps; ++i) {
      clear_gradients(parameters);
      reducer.prepare_for_forward();
      const at::Tensor loss =
          pull_of_rank(parameters, group->rank() == 0 ? 0.3 : -0.3);
      reducer.prepare_for_backward({loss});
      loss.backward();
      const at::NoGradGuard no_grad;
      for (const at::Tensor& one : parameters) one.sub_(one.grad(), rate);
    }
    EXPECT_LT(distance_to_targets(parameters), tolerance);
    for (const at::Tensor& one : parameters) {
      const at::Tensor of_rank_0 = one.detach().clone();
      broadcast(group, of_rank_0)->wait();
      EXPECT_TRUE(at::equal(of_rank_0, one));
    }
  });
}

TEST(LossyTraining, ArrivesWithQuantize) {
  expect_training([] { return quantize(); }, 0.1, 150, 0.01);
  QuantizeOptions four;
  four.bits = 4;
  expect_training([&] { return quantize(four); }, 0.1, 150, 0.1);
}

TEST(LossyTraining, ArrivesWithSigns) {
  SignOptions options;
  options.block = 64;
  expect_training([&] { return sign(options); }, 0.02, 800, 0.1);
}

TEST(LossyTraining, ArrivesWithTopK) {
  TopKOptions options;
  options.ratio = 0.05;
  expect_training([&] { return top_k(options); }, 0.02, 800, 0.1);
}

// What comes out of backward is what went wrong, with the name of the hook, and
// not that the steps behind it were not carried out.
TEST(LossyTraining, RanksWithDifferentOptionsHearOfIt) {
  on_ranks(2, [&](const SharedGroup& group) {
    const Tensors parameters = {parameter({100})};
    Reducer reducer(parameters, group);
    QuantizeOptions options;
    options.bits = group->rank() == 0 ? 8 : 4;
    reducer.register_comm_hook(quantize(options));
    const at::Tensor loss = pull_of_rank(parameters, 0);
    reducer.prepare_for_backward({loss});
    EXPECT_THAT(message_of<MismatchError>([&] { loss.backward(); }),
                AllOf(HasSubstr("'quantize'"), HasSubstr("all_to_all")));
  });
}

}  // namespace
}  // namespace lockstep::hooks

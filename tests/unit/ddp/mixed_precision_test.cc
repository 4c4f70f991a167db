// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/mixed_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/ddp/distributed_data_parallel.h"
#include "parity/agreement.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::mixed {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using namespace lockstep::testing;

// Notes the types that it computes with.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    second = register_module("second", torch::nn::Linear(8, 3));
    torch::NoGradGuard no_grad;
    float value = -1;
    for (auto& one : parameters()) {
      for (int64_t i = 0; i < one.numel(); ++i) {
        one.view({-1})[i] = value = -value * 0.97F;
      }
    }
  }
  at::Tensor forward(const at::Tensor& input) {
    if (fails) throw std::runtime_error("no more paper");
    types = {input.scalar_type(), first->weight.scalar_type(),
             second->bias.scalar_type()};
    return second(torch::tanh(first(input)));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  std::vector<at::ScalarType> types;
  bool fails = false;
};
TORCH_MODULE(Net);

DdpOptions bf16(bool also_reduce = true) {
  DdpOptions options;
  options.mixed_precision.parameter_type = at::kBFloat16;
  if (also_reduce) options.mixed_precision.reduce_type = at::kBFloat16;
  options.bucket_caps_bytes = {20, 60};
  return options;
}

at::Tensor input_of(int rank, int step = 0) {
  return at::arange(24, at::kFloat).view({4, 6}).mul(0.01).add(rank - step);
}

std::vector<at::ScalarType> types_of(const Net& net) {
  std::vector<at::ScalarType> types;
  for (const auto& one : net->parameters()) types.push_back(one.scalar_type());
  return types;
}

TEST(MixedPrecision, ComputesInOneTypeAndShowsTheOther) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group, bf16());
    const at::Tensor output = ddp(input_of(group->rank()));
    EXPECT_THAT(net->types, Each(at::kBFloat16));
    EXPECT_THAT(types_of(net), Each(at::kFloat));
    EXPECT_EQ(output.scalar_type(), at::kFloat);
    output.pow(2).sum().backward();
    EXPECT_THAT(types_of(net), Each(at::kFloat));
    for (const auto& one : net->parameters()) {
      EXPECT_EQ(one.grad().scalar_type(), at::kFloat);
    }
    // In eval mode nothing is converted.
    net->eval();
    EXPECT_EQ(ddp(input_of(0)).scalar_type(), at::kFloat);
    EXPECT_THAT(net->types, Each(at::kFloat));
  });
}

// The same steps by hand: a net of bfloat16 with the gradients of one of
// float32, bit by bit, through a rebuild of buckets.
TEST(MixedPrecision, IsABfloat16NetWithFloat32Weights) {
  for (const bool views : {true, false}) {
    on_ranks(1, [&](const SharedGroup& group) {
      use_one_thread();
      Net net;
      Net master;
      Net low;
      low->to(at::kBFloat16);
      DdpOptions options = bf16(false);
      options.gradient_as_bucket_view = views;
      DistributedDataParallel ddp(net, group, options);
      torch::optim::SGD optimizer(ddp->parameters(), 0.05);
      torch::optim::SGD by_hand(master->parameters(), 0.05);
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        ddp(input_of(0, step)).pow(2).sum().backward();
        optimizer.step();
        for (size_t i = 0; i < 4; ++i) {
          low->parameters()[i].detach().copy_(master->parameters()[i]);
          low->parameters()[i].mutable_grad().reset();
        }
        low(input_of(0, step).to(at::kBFloat16))
            .to(at::kFloat)
            .pow(2)
            .sum()
            .backward();
        for (size_t i = 0; i < 4; ++i) {
          master->parameters()[i].mutable_grad() =
              low->parameters()[i].grad().to(at::kFloat);
        }
        by_hand.step();
        for (size_t i = 0; i < 4; ++i) {
          ASSERT_TRUE(at::equal(net->parameters()[i], master->parameters()[i]))
              << step << ", " << i;
        }
      }
    });
  }
}

TEST(MixedPrecision, HalvesBucketsAndKeepsReplicasEqual) {
  on_ranks(3, [](const SharedGroup& group) {
    use_one_thread();
    Net net;
    Net plain_net;
    DdpOptions options = bf16();
    DistributedDataParallel ddp(net, group, options);
    DistributedDataParallel plain(plain_net, group);
    int64_t bytes = 0;
    std::vector<at::ScalarType> types;
    ddp.register_comm_hook(
        [&](const GradBucket& bucket, const HookContext& context) {
          types.push_back(bucket.buffer().scalar_type());
          bytes += static_cast<int64_t>(bucket.buffer().nbytes());
          return hooks::all_reduce()(bucket, context);
        });
    torch::optim::SGD optimizer(ddp->parameters(), 0.05);
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      bytes = 0;
      ddp(input_of(group->rank(), step)).pow(2).mean().backward();
      EXPECT_EQ(bytes, 2 * (6 * 8 + 8 + 8 * 3 + 3));
      optimizer.step();
      EXPECT_TRUE(all_agree(*group, net->parameters()));
    }
    EXPECT_THAT(types, Each(at::kBFloat16));
  });
}

TEST(MixedPrecision, GradientsAreNearThoseOfFloat32) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    Net plain_net;
    DistributedDataParallel ddp(net, group, bf16());
    DistributedDataParallel plain(plain_net, group);
    ddp(input_of(group->rank())).pow(2).mean().backward();
    plain(input_of(group->rank())).pow(2).mean().backward();
    for (size_t i = 0; i < 4; ++i) {
      const at::Tensor expected = plain_net->parameters()[i].grad();
      const at::Tensor error = net->parameters()[i].grad() - expected;
      EXPECT_LT(error.norm().item<double>(),
                0.03 * expected.norm().item<double>())
          << i;
    }
  });
}

TEST(MixedPrecision, AccumulatesInFloat32InsideNoSync) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group, bf16(false));
    {
      const auto guard = ddp.no_sync();
      ddp(input_of(group->rank())).pow(2).sum().backward();
      EXPECT_THAT(net->types, Each(at::kBFloat16));
      EXPECT_THAT(types_of(net), Each(at::kFloat));
      EXPECT_EQ(net->first->weight.grad().scalar_type(), at::kFloat);
    }
    const at::Tensor before = net->first->weight.grad().clone();
    ddp(input_of(group->rank())).pow(2).sum().backward();
    EXPECT_TRUE(all_agree(*group, {net->first->weight.grad()}));
    EXPECT_FALSE(at::equal(before, net->first->weight.grad()));
  });
}

TEST(MixedPrecision, TakesSeveralForwardsAndSeveralBackwards) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DdpOptions options = bf16();
    options.backwards_per_forward = 2;
    DistributedDataParallel ddp(net, group, options);
    const at::Tensor output = ddp(input_of(group->rank()));
    output.sum().backward({}, true);
    EXPECT_THAT(types_of(net), Each(at::kFloat));
    output.pow(2).sum().backward();
    EXPECT_THAT(types_of(net), Each(at::kFloat));
    EXPECT_TRUE(all_agree(*group, {net->first->weight.grad()}));
    Net other;
    DistributedDataParallel twice(other, group, bf16());
    const at::Tensor a = twice(input_of(group->rank()));
    const at::Tensor b = twice(input_of(group->rank() + 1));
    (a * b).sum().backward();
    EXPECT_TRUE(all_agree(*group, {other->first->weight.grad()}));
  });
}

TEST(MixedPrecision, AForwardOrBackwardThatThrowsLeavesFloat32) {
  on_ranks(1, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group, bf16());
    net->fails = true;
    EXPECT_THROW(ddp(input_of(0)), std::runtime_error);
    EXPECT_THAT(types_of(net), Each(at::kFloat));
    net->fails = false;
    const at::Tensor output = ddp(input_of(0));
    output.register_hook([](const at::Tensor& gradient) -> at::Tensor {
      throw std::runtime_error("no more ink");
      return gradient;
    });
    EXPECT_ANY_THROW(output.sum().backward());
    ddp.reset_state();
    EXPECT_THAT(types_of(net), Each(at::kFloat));
    ddp(input_of(0)).sum().backward();
    EXPECT_THAT(types_of(net), Each(at::kFloat));
  });
}

TEST(MixedPrecision, KnowsBatchNormalisation) {
  for (const bool convert_buffers : {false, true}) {
    on_ranks(2, [&](const SharedGroup& group) {
      torch::nn::Sequential net(torch::nn::Linear(6, 4),
                                torch::nn::BatchNorm1d(4),
                                torch::nn::Linear(4, 2));
      DdpOptions options = bf16();
      if (convert_buffers) options.mixed_precision.buffer_type = at::kBFloat16;
      DistributedDataParallel ddp(net, group, options);
      for (int step = 0; step < 3; ++step) {
        ddp(input_of(group->rank(), step)).pow(2).sum().backward();
      }
      const auto mean = net->named_buffers()["1.running_mean"];
      EXPECT_EQ(mean.scalar_type(),
                convert_buffers ? at::kBFloat16 : at::kFloat);
      EXPECT_NE(mean.abs().sum().item<double>(), 0);
      EXPECT_EQ(net->named_parameters()["1.weight"].scalar_type(), at::kFloat);
    });
  }
}

TEST(MixedPrecision, RefusesTypesThatAreNotFloating) {
  on_ranks(1, [](const SharedGroup& group) {
    DdpOptions options;
    options.mixed_precision.parameter_type = at::kInt;
    EXPECT_THAT(message_of<UsageError>([&] {
                  DistributedDataParallel ddp(Net(), group, options);
                }),
                HasSubstr("Int; expected a floating type"));
    options = {};
    options.mixed_precision.reduce_type = at::kLong;
    EXPECT_THAT(message_of<UsageError>([&] {
                  DistributedDataParallel ddp(Net(), group, options);
                }),
                HasSubstr("reduce_type is Long"));
  });
}

TEST(MixedPrecision, RanksMustAgreeOnIt) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    if (group->rank() == 1) {
      options.mixed_precision.reduce_type = at::kBFloat16;
    }
    EXPECT_THAT(message_of<MismatchError>([&] {
                  DistributedDataParallel ddp(Net(), group, options);
                }),
                HasSubstr("reduce_type"));
  });
}

}  // namespace
}  // namespace lockstep::mixed

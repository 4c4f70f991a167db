// SPDX-License-Identifier: Apache-2.0
// What a wrapper offers beside forward.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/embedding.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/wrapper_models.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace testing;

template <class Ddp>
void scaled_step(Ddp& ddp, int rank) {
  (ddp(at::ones({1, 2})) * (rank + 1)).sum().backward();
}

// ---- Ignored and delayed parameters.

TEST(WrapperCalls, IgnoredParametersStayLocal) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.ignored = {"scale", "first.bias"};  // of the root, and of a child
    Net net(group->rank() + 1.0);
    DistributedDataParallel ddp(net, group, options);
    EXPECT_TRUE(is_all(net->scale, group->rank() + 1));
    EXPECT_TRUE(is_all(net->first->bias, group->rank() + 1));
    EXPECT_TRUE(is_all(net->first->weight, 1));
    scaled_step(ddp, group->rank());
    EXPECT_FALSE(is_alike(group, net->scale.grad()));
    EXPECT_TRUE(is_alike(group, net->second->weight.grad()));
    EXPECT_EQ(ddp.stats().num_parameter_tensors, 3U);
  });
}

TEST(WrapperCalls, DelayedParametersAreAveragedWhenTheTriggerHasCome) {
  for (const std::string trigger : {"first.weight", "second.bias"}) {
    on_ranks(3, [&](const SharedGroup& group) {
      DdpOptions options;
      options.delayed.names = {"scale", "second.bias"};
      options.delayed.trigger = trigger;
      Net net;
      DistributedDataParallel ddp(net, group, options);
      EXPECT_EQ(ddp.stats().num_parameter_tensors, 3U);
      Net alone;
      (alone(at::ones({1, 2})) * 2).sum().backward();  // 2: the mean of 1, 2, 3
      for (int i = 0; i < 3; ++i) {
        scaled_step(ddp, group->rank());
        EXPECT_TRUE(at::equal(net->scale.grad(), alone->scale.grad()));
        EXPECT_TRUE(
            at::equal(net->second->bias.grad(), alone->second->bias.grad()));
        EXPECT_TRUE(
            at::equal(net->first->weight.grad(), alone->first->weight.grad()));
        if (i == 0) {
          net->zero_grad();
        } else {
          for (auto& one : net->parameters()) one.mutable_grad().reset();
        }
      }
    });
  }
}

TEST(WrapperCalls, DelayedParametersAccumulateInsideNoSync) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.delayed.names = {"scale"};
    options.delayed.trigger = "first.weight";
    Net net;
    DistributedDataParallel ddp(net, group, options);
    Net alone;
    (alone(at::ones({1, 2})) * 3).sum().backward();  // 1.5 + 1.5
    {
      const auto guard = ddp.no_sync();
      scaled_step(ddp, group->rank());
      EXPECT_FALSE(is_alike(group, net->scale.grad()));
    }
    scaled_step(ddp, group->rank());
    EXPECT_TRUE(at::equal(net->scale.grad(), alone->scale.grad()));
  });
}

TEST(WrapperCalls, DelayedParametersFollowEveryWayToCallBackward) {
  on_ranks(2, [](const SharedGroup& group) {
    const auto rank = static_cast<double>(group->rank());
    DdpOptions options;
    options.delayed.names = {"scale"};
    options.delayed.trigger = "first.weight";
    {
      Net net;  // two forwards, a backward for each
      DistributedDataParallel ddp(net, group, options);
      const at::Tensor one = ddp(at::ones({1, 2}));
      const at::Tensor two = ddp(at::ones({1, 2}));
      (one.sum() * (rank + 1)).backward();
      (two.sum() * (rank + 1)).backward();
      EXPECT_TRUE(is_alike(group, net->scale.grad()));
      EXPECT_TRUE(is_alike(group, net->first->weight.grad()));
    }
    {
      Net net;  // one forward, two backwards
      options.backwards_per_forward = 2;
      DistributedDataParallel ddp(net, group, options);
      for (int i = 0; i < 3; ++i) {
        net->zero_grad();
        const at::Tensor out = ddp(at::ones({1, 2})).sum() * (rank + 1);
        out.backward({}, /*retain_graph=*/true);
        EXPECT_EQ(is_alike(group, net->scale.grad()), false);
        out.backward();
        EXPECT_TRUE(is_alike(group, net->scale.grad()));
      }
    }
    {
      Net net;  // a forward that is thrown away, and then one without sync
      options.backwards_per_forward = 1;
      DistributedDataParallel ddp(net, group, options);
      ddp(at::ones({1, 2}));
      if (group->rank() == 1) {
        const auto guard = ddp.no_sync();
        ddp(at::ones({1, 2})).sum().backward();
      }
      scaled_step(ddp, group->rank());
      EXPECT_TRUE(is_alike(group, net->scale.grad()));
    }
  });
}

// Some of three scalars take part, as the caller likes.
struct BranchImpl : torch::nn::Module {
  BranchImpl()
      : a(register_parameter("a", at::ones({1}))),
        b(register_parameter("b", at::ones({1}))),
        c(register_parameter("c", at::ones({1}))) {}
  at::Tensor forward(const std::string& names, double factor) {
    at::Tensor sum = at::zeros({1});
    for (const char name : names) {
      sum = sum + (name == 'a' ? a : name == 'b' ? b : c) * factor;
    }
    return sum;
  }
  at::Tensor a, b, c;
};
TORCH_MODULE(Branch);

TEST(WrapperCalls, DelayedParametersMayBeUnusedAndSoMayTheTrigger) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.delayed = {{"b"}, "c"};
    options.find_unused_parameters = true;
    Branch net;
    DistributedDataParallel ddp(net, group, options);
    const double factor = group->rank() + 1;
    // What rank 1 uses; rank 0 uses all.
    for (const std::string used : {"abc", "b", "ac", "a", "abc"}) {
      for (auto& one : net->parameters()) one.mutable_grad().reset();
      ddp(group->rank() == 0 ? "abc" : used, factor).backward();
      const auto expected = [&](char name) {
        return used.find(name) == std::string::npos ? 0.5 : 1.5;
      };
      EXPECT_TRUE(is_all(net->a.grad(), expected('a'))) << used;
      EXPECT_TRUE(is_all(net->b.grad(), expected('b'))) << used;
      EXPECT_TRUE(is_all(net->c.grad(), expected('c'))) << used;
    }
  });
}

// ---- Hooks and settings.

TEST(WrapperCalls, ACommHookIsRegisteredOnceAndBothAreNamed) {
  on_ranks(2, [](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    ddp.register_comm_hook(hooks::noop(), "first one");
    const auto text = message_of<UsageError>(
        [&] { ddp.register_comm_hook(hooks::noop(), "another"); });
    EXPECT_THAT(text, HasSubstr("first one"));
    EXPECT_THAT(text, HasSubstr("another"));
    (ddp([](const at::Tensor& w) { return w * 1; }) * (group->rank() + 1))
        .sum()
        .backward();
    EXPECT_TRUE(is_all(net->w.grad(), group->rank() + 1));
    EXPECT_EQ(ddp.stats().comm_hook, "first one");
  });
}

TEST(WrapperCalls, BackwardWaitsForInstalledFutures) {
  on_ranks(1, [](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    Promise<void> promise;
    ddp.install_futures({promise.future()});
    const at::Tensor out = ddp([](const at::Tensor& w) { return w * 1; });
    std::atomic<bool> set{false};
    std::thread setter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      set = true;
      promise.set_value();
    });
    out.sum().backward();
    EXPECT_TRUE(set);
    setter.join();
  });
}

TEST(WrapperCalls, StaticGraphMayBeSetBeforeTheFirstStepOnly) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    ddp.set_static_graph();
    EXPECT_TRUE(ddp.options().static_graph);
    EXPECT_TRUE(ddp.stats().static_graph);
    scaled_step(ddp, group->rank());
    scaled_step(ddp, group->rank());
    EXPECT_TRUE(is_alike(group, net->scale.grad()));
    EXPECT_THAT(message_of<UsageError>([&] { ddp.set_static_graph(); }),
                HasSubstr("before the first"));
  });
}

TEST(WrapperCalls, CheckFinalizedThrowsWhatIsUnfinished) {
  on_ranks(1, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    EXPECT_NO_THROW(ddp.check_finalized());
    const auto text = message_of<UsageError>([&] {
      const at::Tensor out = ddp(at::ones({1, 2}));
      net->first(at::ones({1, 2})).sum().backward();
    });
    EXPECT_THAT(text, HasSubstr("Expected to have finished reduction"));
    EXPECT_THAT(text, HasSubstr("second.weight"));
    EXPECT_THAT(message_of<UsageError>([&] { ddp.check_finalized(); }),
                HasSubstr("second.weight"));
    EXPECT_TRUE(ddp.stats().has_error);
    net->zero_grad();
    ddp.reset_state();
    scaled_step(ddp, 0);
    EXPECT_FALSE(ddp.stats().has_error);
  });
}

TEST(WrapperCalls, AResetMakesRanksAlikeThatDidNotComeEquallyFar) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.check_replicas_every = 2;
    Net net;
    DistributedDataParallel ddp(net, group, options);
    scaled_step(ddp, group->rank());
    if (group->rank() == 0) {
      const at::NoGradGuard no_grad;
      net->scale += 1;
      ddp(at::ones({1, 2}));  // never happens
    }
    net->zero_grad();
    ddp.reset_state();
    EXPECT_TRUE(is_alike(group, net->scale));
    for (int i = 0; i < 4; ++i) scaled_step(ddp, group->rank());
  });
}

TEST(WrapperCalls, GoesOnInAnotherGroup) {
  on_ranks(3, [](const SharedGroup& world) {
    Net net(world->rank() + 1.0);
    DistributedDataParallel ddp(net, world);
    scaled_step(ddp, world->rank());
    const bool stays = world->rank() > 0;
    const auto pair = world->split(stays ? 0 : ProcessGroup::kNoGroup);
    if (!stays) return;
    {
      const at::NoGradGuard no_grad;
      net->scale.fill_(world->rank());
    }
    ddp.update_process_group(pair);
    EXPECT_TRUE(is_all(net->scale, 1));  // of the new rank 0
    net->zero_grad();
    for (int i = 0; i < 3; ++i) {
      net->zero_grad();
      scaled_step(ddp, pair->rank());
      EXPECT_TRUE(is_alike(pair, net->scale.grad()));
    }
    EXPECT_EQ(ddp.stats().world_size, 2);
  });
}

TEST(WrapperCalls, SparseEmbeddingsAreFoundAndMayBeToldTheirRows) {
  on_ranks(2, [](const SharedGroup& group) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(6, 2).sparse(true));
    DistributedDataParallel ddp(table, group);
    for (const bool told : {false, true}) {
      if (told)
        ddp.set_sparse_metadata({{"weight", at::tensor({1, 2, 3}, at::kLong)}});
      table->weight.mutable_grad().reset();
      ddp(at::tensor({1, group->rank() + 2})).sum().backward();
      const at::Tensor grad = table->weight.grad().to_dense().select(1, 0);
      EXPECT_TRUE(at::equal(
          grad, at::tensor({0., 1., 0.5, 0.5, 0., 0.}).to(at::kFloat)))
          << grad;
    }
  });
}

// ---- Replicas.

TEST(WrapperCalls, ReplicasThatDifferAreNamed) {
  on_ranks(3, [](const SharedGroup& group) {
    DdpOptions options;
    options.check_replicas_every = 2;
    Net net;
    DistributedDataParallel ddp(net, group, options);
    for (int i = 0; i < 3; ++i) scaled_step(ddp, 0);
    if (group->rank() == 2) {
      const at::NoGradGuard no_grad;
      net->second->bias[1] += 1;
    }
    const auto text = message_of<MismatchError>([&] { scaled_step(ddp, 0); });
    EXPECT_THAT(text, HasSubstr("'second.bias' (rank 2)"));
    EXPECT_THAT(text, HasSubstr("iteration 4"));
  });
}

// ---- Unused parameters.

TEST(WrapperCalls, BucketsThatNobodyUsesAreNotSent) {
  for (const bool is_static : {false, true}) {
    on_ranks(2, [&](const SharedGroup& group) {
      DdpOptions options;
      options.bucket_caps_bytes = {1};  // a bucket for each
      options.find_unused_parameters = !is_static;
      options.static_graph = is_static;
      options.skip_unused = true;
      std::atomic<int> calls{0};
      Net net;
      DistributedDataParallel ddp(net, group, options);
      // All buckets are shown, in order, and two of them as skipped.
      size_t next = 0;
      ddp.register_comm_hook(
          [&](const GradBucket& bucket, const HookContext& context) {
            EXPECT_EQ(bucket.index(), next);
            next = bucket.is_last() ? 0 : next + 1;
            if (!bucket.is_skipped()) ++calls;
            return hooks::all_reduce()(bucket, context);
          });
      for (int i = 0; i < 3; ++i) {
        calls = 0;
        net->zero_grad();
        net->second->weight.mutable_grad() = at::full({2, 3}, 7.);
        // Rank 1 alone uses the second layer's bias; nobody its weight.
        at::Tensor out = net->first(at::ones({1, 2})).sum();
        if (group->rank() == 1) out = out + net->second->bias.sum();
        ddp.reducer().prepare_for_forward();
        ddp.reducer().prepare_for_backward({out});
        out.backward();
        const bool learning = is_static && i == 0;
        EXPECT_EQ(calls, learning ? 5 : 3) << "step " << i;
        EXPECT_TRUE(is_all(net->second->weight.grad(), 7));
        EXPECT_TRUE(is_all(net->second->bias.grad(), 0.5));
        EXPECT_TRUE(is_all(net->first->bias.grad(), 1));
      }
      EXPECT_EQ(ddp.stats().unused_parameter_size,
                group->rank() == 1 ? 32U : 40U);
    });
  }
}

}  // namespace
}  // namespace lockstep

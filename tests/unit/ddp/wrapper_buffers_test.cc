// SPDX-License-Identifier: Apache-2.0
// Buffers of a wrapped module: who sends what, and when.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "lockstep/trace/trace.h"
#include "support/message_of.h"
#include "unit/ddp/wrapper_models.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using namespace testing;

TEST(WrapperBuffers, FollowThoseOfRank0) {
  on_ranks(3, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    for (int i = 0; i < 3; ++i) {
      // Each rank counts in its own way; forward begins with rank 0's.
      net->count += 10 * group->rank();
      step(ddp, group->rank());
    }
    EXPECT_TRUE(is_all(net->count, 3));
  });
}

TEST(WrapperBuffers, BatchNormalisationIsNoticedThoughItCountsNoVersion) {
  on_ranks(2, [](const SharedGroup& group) {
    torch::nn::BatchNorm1d norm(2);
    DistributedDataParallel ddp(norm, group);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor before = norm->running_mean.clone();
      ddp(at::rand({4, 2}) + group->rank() * 5).sum().backward();
      EXPECT_FALSE(at::equal(norm->running_mean, before));
    }
    EXPECT_FALSE(is_alike(group, norm->running_mean));  // since forward
    ddp(at::ones({4, 2}));  // begins with rank 0's, then the same data
    EXPECT_TRUE(is_alike(group, norm->running_mean));
  });
}

// A buffer that nobody changes by itself.
struct QuietImpl : torch::nn::Module {
  QuietImpl()
      : w(register_parameter("w", at::ones({1}))),
        table(register_buffer("table", at::ones({3}))) {}
  at::Tensor forward(const at::Tensor& x) { return x * w + table.sum(); }
  at::Tensor w, table;
};
TORCH_MODULE(Quiet);

// Sequence numbers of the wrapper's lane count collectives.
TEST(WrapperBuffers, AreNotSentWhenTheyChangedNowhere) {
  on_ranks(2, [](const SharedGroup& group) {
    Quiet net;
    DistributedDataParallel ddp(net, group);
    const auto collectives_of_a_step = [&] {
      const int64_t before = ddp.reducer().group()->sequence_number();
      step(ddp, group->rank());
      return ddp.reducer().group()->sequence_number() - before;
    };
    step(ddp, 0);
    step(ddp, 0);                           // rebuilds
    EXPECT_EQ(collectives_of_a_step(), 2);  // a bucket and the flags
    if (group->rank() == 1) net->table.fill_(5);
    EXPECT_EQ(collectives_of_a_step(), 2);  // tells the others
    EXPECT_EQ(collectives_of_a_step(), 3);  // and is sent
    EXPECT_TRUE(is_all(net->table, 1));
    EXPECT_EQ(collectives_of_a_step(), 2);
    torch::nn::Linear plain(2, 2);
    DistributedDataParallel other(plain, group);
    for (int i = 0; i < 2; ++i) step(other, group->rank());
    const int64_t before = other.reducer().group()->sequence_number();
    step(other, group->rank());
    // No flags for a module without buffers.
    EXPECT_EQ(other.reducer().group()->sequence_number() - before, 1);
  });
}

TEST(WrapperBuffers, BatchNormalisationMayHaveSeveralForwardsPerBackward) {
  on_ranks(2, [](const SharedGroup& group) {
    torch::nn::BatchNorm1d norm(2);
    DistributedDataParallel ddp(norm, group);
    for (int i = 0; i < 3; ++i) {
      norm->zero_grad();
      const at::Tensor first = ddp(at::rand({4, 2}) + group->rank());
      const at::Tensor second = ddp(at::rand({4, 2}) + group->rank());
      (first + second).pow(2).sum().backward();
      EXPECT_TRUE(is_alike(group, norm->weight.grad()));
    }
  });
}

TEST(WrapperBuffers, ThatCannotBeWrittenAreNamedOnAllRanks) {
  struct Odd : torch::nn::Module {
    Odd() {
      register_parameter("w", at::ones({1}));
      register_buffer("mask", at::ones({1}).expand({4}));
    }
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  on_ranks(2, [](const SharedGroup& group) {
    EXPECT_THAT(message_of<UsageError>([&] {
                  DistributedDataParallel ddp(std::make_shared<Odd>(), group);
                }),
                HasSubstr("buffer 'mask'"));
  });
}

TEST(WrapperBuffers, AChangeOnOneRankIsUndoneAStepLater) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    step(ddp, 0);
    step(ddp, 0);
    if (group->rank() == 1) net->table.fill_(9);
    step(ddp, 0);  // tells the others
    step(ddp, 0);  // and gets rank 0's
    EXPECT_TRUE(is_all(net->table, 1));
    if (group->rank() == 0) net->table.fill_(4);
    ddp.sync_buffers();  // or at once
    EXPECT_TRUE(is_all(net->table, 4));
  });
}

TEST(WrapperBuffers, StayWhereTheyAreIfNotAskedFor) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.broadcast_buffers = false;
    Net net(group->rank() + 1.0);
    DistributedDataParallel ddp(net, group, options);
    EXPECT_TRUE(is_all(net->table, 1));  // only at the start
    net->table.fill_(group->rank());
    for (int i = 0; i < 3; ++i) step(ddp, 0);
    EXPECT_TRUE(is_all(net->table, group->rank()));
  });
}

TEST(WrapperBuffers, IgnoredOnesAreLeftAlone) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.ignored = {"table", "frozen"};
    Net net(group->rank() + 1.0);
    DistributedDataParallel ddp(net, group, options);
    for (int i = 0; i < 3; ++i) step(ddp, 0);
    EXPECT_TRUE(is_all(net->table, group->rank() + 1));
    EXPECT_TRUE(is_all(net->frozen, group->rank() + 1));
    EXPECT_TRUE(is_all(net->count, 3));
  });
}

TEST(WrapperBuffers, NoSyncSendsNothing) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    step(ddp, 0);
    const int64_t before = ddp.reducer().group()->sequence_number();
    {
      const auto guard = ddp.no_sync();
      // Ranks need not even do it equally often.
      for (int i = 0; i <= group->rank(); ++i) step(ddp, 0);
    }
    EXPECT_EQ(ddp.reducer().group()->sequence_number(), before);
    step(ddp, 0);
    step(ddp, 0);
    EXPECT_TRUE(is_alike(group, net->count));
  });
}

TEST(WrapperBuffers, AHookTakesOver) {
  for (const auto when :
       {BufferHookTime::kBeforeForward, BufferHookTime::kAfterForward}) {
    on_ranks(2, [&](const SharedGroup& group) {
      Net net;
      DistributedDataParallel ddp(net, group);
      std::vector<std::string> names;
      double count_seen = -1;
      ddp.register_buffer_hook(
          [&](ProcessGroup& lane, const NamedTensors& buffers) {
            names.clear();
            for (const auto& one : buffers) names.push_back(one.first);
            count_seen = net->count.item<double>();
            return std::vector<Future<void>>{
                all_reduce(lane, net->table, ReduceOp::kSum)->future()};
          },
          when);
      step(ddp, 0);  // its end has waited for the hook's collective
      EXPECT_TRUE(is_all(net->table, 2));
      EXPECT_THAT(names, ::testing::ElementsAre("count", "table"));
      EXPECT_EQ(count_seen, when == BufferHookTime::kBeforeForward ? 0 : 1);
      EXPECT_THAT(
          message_of<UsageError>([&] {
            ddp.register_buffer_hook([](ProcessGroup&, const NamedTensors&) {
              return std::vector<Future<void>>();
            });
          }),
          HasSubstr("once"));
    });
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Wrapping a module: what is synchronised, what forward returns, and which
// steps reduce.
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/wrapper_models.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using namespace testing;

TEST(Wrapper, AllStartWithTheValuesOfRank0) {
  on_ranks(3, [](const SharedGroup& group) {
    Net net(group->rank() + 2.0);
    const DistributedDataParallel ddp(net, group);
    for (const auto& one : net->parameters()) EXPECT_TRUE(is_all(one, 2));
    EXPECT_TRUE(is_all(net->frozen, 2));
    EXPECT_TRUE(is_all(net->table, 2));
  });
}

TEST(Wrapper, TrainsLikeOneRankWithAllTheData) {
  constexpr int kRanks = 3;
  Net reference(0.5);
  for (int step = 0; step < 4; ++step) {
    reference->zero_grad();
    at::Tensor loss = at::zeros({});
    for (int rank = 0; rank < kRanks; ++rank) {
      loss = loss + reference(input_of(rank)).pow(2).mean() / kRanks;
    }
    loss.backward();
    descend(reference->parameters());
  }
  on_ranks(kRanks, [&](const SharedGroup& group) {
    Net net(0.5 + group->rank());
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 4; ++step) {
      ddp->zero_grad();
      ddp(input_of(group->rank())).pow(2).mean().backward();
      descend(ddp->parameters());
    }
    const auto expected = reference->parameters();
    const auto actual = net->parameters();
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(at::allclose(actual[i], expected[i]));
      EXPECT_TRUE(is_alike(group, actual[i]));
    }
  });
}

TEST(Wrapper, TakesASharedPointerToo) {
  on_ranks(2, [](const SharedGroup& group) {
    auto net = std::make_shared<NetImpl>(1.0 + group->rank());
    DistributedDataParallel ddp(net, group);
    ddp(input_of(group->rank())).sum().backward();
    EXPECT_TRUE(is_alike(group, net->scale.grad()));
    EXPECT_EQ(ddp.module().get(), net.get());
  });
}

TEST(Wrapper, LeavesNamesAsTheyAre) {
  on_ranks(1, [](const SharedGroup& group) {
    Net net;
    const auto before = net->named_parameters().keys();
    DistributedDataParallel ddp(net, group);
    EXPECT_EQ(ddp->named_parameters().keys(), before);
    EXPECT_EQ(before.front(), "scale");
    const auto& constant = ddp;
    EXPECT_EQ(constant->named_parameters().keys(), before);
    EXPECT_EQ(constant.module().ptr(), net.ptr());
  });
}

// ---- Outputs.

struct Pair {
  at::Tensor policy, value;
  template <class F>
  void visit_tensors(F&& f) {
    f(policy), f(value);
  }
};

template <class Output>
void expect_reduced(const std::function<Output(const at::Tensor&)>& make,
                    const std::function<at::Tensor(Output&)>& loss_of_output,
                    const DdpOptions& options = {}) {
  on_ranks(2, [&](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group, options);
    for (int step = 0; step < 3; ++step) {
      net->w.mutable_grad().reset();
      Output output = ddp(make);
      (loss_of_output(output) * (group->rank() + 1)).sum().backward();
      EXPECT_TRUE(is_all(net->w.grad(), 1.5)) << "step " << step;
    }
  });
}

TEST(Wrapper, FindsTensorsInOutputsOfEveryKind) {
  using T = at::Tensor;
  expect_reduced<T>([](const T& w) { return w * 1; },
                    [](T& out) { return out; });
  expect_reduced<std::tuple<int, T>>(
      [](const T& w) { return std::make_tuple(7, w * 1); },
      [](auto& out) { return std::get<1>(out); });
  expect_reduced<std::pair<T, std::string>>(
      [](const T& w) { return std::make_pair(w * 1, std::string("x")); },
      [](auto& out) { return out.first; });
  expect_reduced<std::vector<T>>(
      [](const T& w) {
        return std::vector<T>{w * 0, w * 1};
      },
      [](auto& out) { return out[1]; });
  expect_reduced<std::map<std::string, T>>(
      [](const T& w) {
        return std::map<std::string, T>{{"a", w * 1}};
      },
      [](auto& out) { return out["a"]; });
  expect_reduced<std::optional<T>>(
      [](const T& w) { return std::optional<T>(w * 1); },
      [](auto& out) { return *out; });
  expect_reduced<std::vector<std::tuple<T, std::optional<T>>>>(
      [](const T& w) {
        return std::vector<std::tuple<T, std::optional<T>>>{{T(), std::nullopt},
                                                            {w * 1, w * 2}};
      },
      [](auto& out) { return std::get<0>(out[1]); });
  expect_reduced<Pair>(
      [](const T& w) {
        return Pair{w * 1, w * 2};
      },
      [](auto& out) { return out.policy; });
}

TEST(Wrapper, OutputsMayBeChangedInPlace) {
  for (const int way : {0, 1, 2, 3}) {
    DdpOptions options;
    options.find_unused_parameters = way == 1 || way == 3;
    options.static_graph = way == 2;
    options.clone_outputs = way != 3;
    // A view, whose history changes with it, and a tensor of its own.
    expect_reduced<at::Tensor>(
        [](const at::Tensor& w) {
          return (w * 0.5).view({1, 1});
        },
        [](at::Tensor& out) { return out.mul_(2); }, options);
    expect_reduced<at::Tensor>([](const at::Tensor& w) { return w * 0.5; },
                               [](at::Tensor& out) { return out.mul_(2); },
                               options);
  }
}

TEST(Wrapper, CopiesOutputsOnlyWhereItSearches) {
  on_ranks(1, [](const SharedGroup& group) {
    const auto is_copied = [&](const DdpOptions& options) {
      Scalar net;
      DistributedDataParallel ddp(net, group, options);
      const void* made = nullptr;
      const at::Tensor out = ddp([&](const at::Tensor& w) {
        at::Tensor one = w * 2;
        made = one.data_ptr();
        return one;
      });
      out.sum().backward();
      return out.data_ptr() != made;
    };
    DdpOptions options;
    EXPECT_FALSE(is_copied(options));
    options.find_unused_parameters = true;
    EXPECT_TRUE(is_copied(options));
    options.clone_outputs = false;
    EXPECT_FALSE(is_copied(options));
  });
}

TEST(Wrapper, LeavesOutputsWithoutHistoryAlone) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.find_unused_parameters = true;
    Scalar net;
    DistributedDataParallel ddp(net, group, options);
    const at::Tensor constant = at::ones({2});
    const auto [out, same, none] = ddp([&](const at::Tensor& w) {
      return std::make_tuple(w * 1, constant, at::Tensor());
    });
    EXPECT_TRUE(same.is_same(constant));
    EXPECT_FALSE(none.defined());
    out.sum().backward();
    // A forward that nobody can call backward on expects none.
    ddp([&](const at::Tensor&) { return constant; });
    net->w.mutable_grad().reset();
    (ddp([](const at::Tensor& w) { return w * 2; }) * (group->rank() + 1))
        .sum()
        .backward();
    EXPECT_TRUE(is_all(net->w.grad(), 3));
  });
}

TEST(Wrapper, AModuleMayReturnNothing) {
  on_ranks(2, [](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    at::Tensor loss;
    for (int step = 0; step < 2; ++step) {
      net->w.mutable_grad().reset();
      ddp([&](const at::Tensor& w) { loss = w * (group->rank() + 1); });
      loss.sum().backward();
      EXPECT_TRUE(is_all(net->w.grad(), 1.5));
    }
  });
}

TEST(Wrapper, ReducesThoughNoOutputHasAHistory) {
  on_ranks(2, [](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    at::Tensor kept;
    for (int step = 0; step < 4; ++step) {
      net->w.mutable_grad().reset();
      at::Tensor out = ddp([&](const at::Tensor& w) {
        kept = w * 1;
        return step < 2 ? w : kept.detach();  // itself, or what it keeps
      });
      ((step < 2 ? out : kept) * (group->rank() + 1)).sum().backward();
      EXPECT_TRUE(is_all(net->w.grad(), 1.5));
    }
  });
}

// ---- Which steps reduce.

TEST(Wrapper, NoSyncAccumulatesAndTheNextStepReducesTheSum) {
  for (const bool is_static : {false, true}) {
    on_ranks(2, [&](const SharedGroup& group) {
      DdpOptions options;
      options.static_graph = is_static;
      Scalar net;
      DistributedDataParallel ddp(net, group, options);
      const auto go = [&] {
        (ddp([](const at::Tensor& w) { return w * 1; }) * (group->rank() + 1))
            .sum()
            .backward();
      };
      for (int round = 0; round < 3; ++round) {
        net->w.mutable_grad().reset();
        {
          const auto outer = ddp.no_sync();
          const auto inner = ddp.no_sync();
          go();
          EXPECT_TRUE(is_all(net->w.grad(), group->rank() + 1));
        }
        go();
        EXPECT_TRUE(is_all(net->w.grad(), 3)) << "round " << round;
      }
      EXPECT_EQ(ddp.stats().iteration, 3);
    });
  }
}

TEST(Wrapper, EvaluationOnOneRankAloneIsFine) {
  on_ranks(3, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    ddp(input_of(0)).sum().backward();
    if (group->rank() == 1) {
      ddp->eval();
      ddp(input_of(0));
      ddp->train();
      const at::NoGradGuard no_grad;
      ddp(input_of(0));
    }
    ddp(input_of(0)).sum().backward();
    EXPECT_EQ(ddp.stats().iteration, 2);
  });
}

TEST(Wrapper, WarnsOnceOfABackwardInEvalMode) {
  std::vector<std::string> lines;
  const LogSink before = set_log_sink([&](LogLevel, const std::string& line) {
    if (line.find("eval mode") != std::string::npos) lines.push_back(line);
  });
  on_ranks(2, [](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    ddp->eval();
    for (int i = 0; i < 3; ++i) {
      const at::Tensor out = ddp([](const at::Tensor& w) { return w * 2; });
      if (group->rank() == 1) out.sum().backward();
    }
  });
  set_log_sink(before);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("rank 1"));
  EXPECT_THAT(lines[0], HasSubstr("not averaged"));
}

TEST(Wrapper, WarnsOnceOfABackwardBeforeAnyForward) {
  const testing::LogCapture log;
  const auto twice = [](const at::Tensor& w) { return w * 2; };
  on_ranks(2, [&](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    if (group->rank() == 1) {
      for (int i = 0; i < 3; ++i) net->forward(twice).sum().backward();
    }
    ddp(twice).sum().backward();
    net->forward(twice).sum().backward();  // may be meant
  });
  on_ranks(2, [&](const SharedGroup& group) {
    DistributedDataParallel ddp(Scalar(), group);
    at::Tensor out;
    {
      const auto guard = ddp.no_sync();
      out = ddp(twice);
    }
    out.sum().backward();
  });
  EXPECT_EQ(log.count("not averaged"), 1);
  EXPECT_EQ(log.count("rank 1: backward() reached parameters"), 1);
}

TEST(Wrapper, RemovedHooksLeaveAPlainModule) {
  on_ranks(2, [](const SharedGroup& group) {
    Scalar net;
    DistributedDataParallel ddp(net, group);
    ddp.remove_hooks();
    (ddp([](const at::Tensor& w) { return w * 1; }) * (group->rank() + 1))
        .sum()
        .backward();
    EXPECT_TRUE(is_all(net->w.grad(), group->rank() + 1));
  });
}

TEST(Wrapper, WithoutInitSyncTheConstructorMakesNoCollectiveCall) {
  on_ranks(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.init_sync = false;
    Net net(group->rank() + 1.0);
    DistributedDataParallel ddp(net, group, options);
    EXPECT_EQ(group->sequence_number(), 0);
    ddp->eval();
    ddp(input_of(0));
    EXPECT_EQ(group->sequence_number(), 0);
    ddp->train();
    ddp(input_of(0)).sum().backward();
    EXPECT_GT(group->sequence_number(), 0);
    EXPECT_TRUE(is_all(net->scale, group->rank() + 1));  // not sent
    EXPECT_TRUE(is_alike(group, net->scale.grad()));
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What goes wrong is named, on all ranks, and nobody is left waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "support/message_of.h"
#include "unit/ddp/wrapper_models.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;

// The error of wrapping a Net with these options, alone.
template <class ErrorType = UsageError>
std::string error_of(const DdpOptions& options) {
  std::string text;
  on_ranks(1, [&](const SharedGroup& group) {
    text = message_of<ErrorType>(
        [&] { DistributedDataParallel ddp(Net(), group, options); });
  });
  return text;
}

TEST(WrapperErrors, NamesWhatTheModuleDoesNotHaveAndTheNearest) {
  DdpOptions options;
  options.ignored = {"first.weights"};
  EXPECT_THAT(error_of(options),
              AllOf(HasSubstr("'first.weights'"), HasSubstr("ignored"),
                    HasSubstr("did you mean 'first.weight'?")));
  options = {};
  options.delayed.names = {"scal"};
  options.delayed.trigger = "first.weight";
  EXPECT_THAT(error_of(options), HasSubstr("did you mean 'scale'?"));
  options.delayed.names = {"scale"};
  options.delayed.trigger = "first";
  EXPECT_THAT(error_of(options), HasSubstr("delayed.trigger"));
  options.delayed.trigger = "";
  EXPECT_THAT(error_of(options), HasSubstr("needs both"));
  options.delayed.trigger = "frozen";
  EXPECT_THAT(error_of(options), HasSubstr("trigger 'frozen'"));
}

TEST(WrapperErrors, ASettingThatCannotBeIsNamed) {
  DdpOptions options;
  options.stats_sample_rate = 0;
  EXPECT_THAT(error_of(options), HasSubstr("stats_sample_rate is 0"));
  options = {};
  options.bucket_caps_bytes = {};
  EXPECT_THAT(error_of(options), HasSubstr("bucket_caps_bytes"));
  options = {};
  options.backwards_per_forward = 0;
  EXPECT_THAT(error_of(options), HasSubstr("backwards_per_forward"));
  options = {};
  options.check_replicas_every = -1;
  EXPECT_THAT(error_of(options), HasSubstr("check_replicas_every"));
  options = {};
  options.skip_unused = true;
  EXPECT_THAT(error_of(options), HasSubstr("skip_unused"));
}

TEST(WrapperErrors, AModuleThatCannotBeTrained) {
  on_ranks(1, [](const SharedGroup& group) {
    Net net;
    for (auto& one : net->parameters()) one.set_requires_grad(false);
    EXPECT_THAT(message_of<UsageError>(
                    [&] { DistributedDataParallel ddp(net, group); }),
                HasSubstr("no parameter that requires a gradient"));
    struct Odd : torch::nn::Module {
      explicit Odd(const at::Tensor& w) { register_parameter("w", w); }
      at::Tensor forward() { return at::ones({1}); }
    };
    const auto wrap = [&](const at::Tensor& w) {
      DistributedDataParallel ddp(std::make_shared<Odd>(w), group);
    };
    EXPECT_THAT(message_of<UsageError>([&] {
                  wrap(at::empty({2}, at::TensorOptions().device(at::kMeta)));
                }),
                HasSubstr("'w'"));
    EXPECT_THAT(message_of<UsageError>([&] { wrap(at::eye(2).to_sparse()); }),
                AllOf(HasSubstr("'w'"), HasSubstr("no storage")));
    EXPECT_THAT(message_of<UsageError>(
                    [&] { DistributedDataParallel ddp(Net(), nullptr); }),
                HasSubstr("the group is null"));
    EXPECT_THAT(message_of<UsageError>([&] {
                  DistributedDataParallel ddp(std::shared_ptr<NetImpl>(),
                                              group);
                }),
                HasSubstr("the module is null"));
    EXPECT_THAT(message_of<UsageError>(
                    [&] { DistributedDataParallel ddp(Net(nullptr), group); }),
                HasSubstr("the module is null"));
  });
}

TEST(WrapperErrors, ASharedParameterIsTreatedAlikeUnderBothNames) {
  struct Tied : torch::nn::Module {
    Tied() {
      const at::Tensor w = register_parameter("in", at::ones({2}));
      register_parameter("out", w);
      register_parameter("other", at::ones({2}));
    }
    at::Tensor forward(const at::Tensor& x) {
      return x * parameters_["in"] * parameters_["out"] * parameters_["other"];
    }
  };
  on_ranks(2, [](const SharedGroup& group) {
    const auto tied = std::make_shared<Tied>();
    {
      DistributedDataParallel ddp(tied, group);
      EXPECT_EQ(ddp.stats().num_parameter_tensors, 2U);
      (ddp(at::ones({2})) * (group->rank() + 1)).sum().backward();
      EXPECT_TRUE(is_all(tied->named_parameters()["in"].grad(), 3));
    }
    DdpOptions options;
    options.ignored = {"out"};
    EXPECT_THAT(message_of<UsageError>(
                    [&] { DistributedDataParallel ddp(tied, group, options); }),
                AllOf(HasSubstr("'in'"), HasSubstr("same tensor")));
  });
}

// ---- Ranks that differ. All of them hear of it, and soon.

template <class Make>
std::vector<std::string> errors_of(int ranks, const Make& make) {
  std::vector<std::string> texts(static_cast<size_t>(ranks));
  on_ranks(ranks, [&](const SharedGroup& group) {
    try {
      make(group);
      texts[static_cast<size_t>(group->rank())] = "no error";
    } catch (const Error& error) {
      texts[static_cast<size_t>(group->rank())] = error.what();
    }
  });
  return texts;
}

TEST(WrapperErrors, DifferentIgnoredSetsAreNamedOnAllRanks) {
  const auto texts = errors_of(3, [](const SharedGroup& group) {
    DdpOptions options;
    if (group->rank() == 2) options.ignored = {"first.bias"};
    DistributedDataParallel ddp(Net(), group, options);
  });
  for (const auto& text : texts) {
    EXPECT_THAT(text, AllOf(HasSubstr("expects same model across all ranks"),
                            HasSubstr("first.bias"), HasSubstr("rank 2")));
  }
}

TEST(WrapperErrors, DifferentModulesAreNamedOnAllRanks) {
  const auto wider = errors_of(2, [](const SharedGroup& group) {
    torch::nn::Linear layer(2, 3 + group->rank());
    DistributedDataParallel ddp(layer, group);
  });
  for (const auto& text : wider) {
    EXPECT_THAT(text, AllOf(HasSubstr("'weight'"), HasSubstr("[3, 2]"),
                            HasSubstr("[4, 2]"), HasSubstr("rank 1")));
  }
  const auto frozen = errors_of(2, [](const SharedGroup& group) {
    torch::nn::Linear layer(2, 3);
    layer->bias.set_requires_grad(group->rank() == 0);
    DistributedDataParallel ddp(layer, group);
  });
  for (const auto& text : frozen) {
    EXPECT_THAT(text, AllOf(HasSubstr("'bias'"), HasSubstr("is frozen")));
  }
  const auto buffers = errors_of(2, [](const SharedGroup& group) {
    torch::nn::BatchNorm1d norm(
        torch::nn::BatchNorm1dOptions(2).track_running_stats(group->rank() ==
                                                             0));
    DistributedDataParallel ddp(norm, group);
  });
  for (const auto& text : buffers) {
    EXPECT_THAT(text, HasSubstr("buffer running_mean"));
  }
}

TEST(WrapperErrors, DifferentOptionsAreNamedOnAllRanks) {
  const std::vector<std::pair<std::string, void (*)(DdpOptions&)>> changes = {
      {"bucket_caps_bytes",
       [](DdpOptions& o) { o.bucket_caps_bytes = {1 << 20}; }},
      {"find_unused_parameters",
       [](DdpOptions& o) { o.find_unused_parameters = true; }},
      {"static_graph", [](DdpOptions& o) { o.static_graph = true; }},
      {"init_sync", [](DdpOptions& o) { o.init_sync = false; }},
      {"broadcast_buffers", [](DdpOptions& o) { o.broadcast_buffers = false; }},
      {"gradient_as_bucket_view",
       [](DdpOptions& o) { o.gradient_as_bucket_view = false; }},
      {"check_replicas_every",
       [](DdpOptions& o) { o.check_replicas_every = 3; }},
      {"delayed", [](DdpOptions& o) {
         o.delayed = {{"scale"}, "first.weight"};
       }}};
  for (const auto& [name, change] : changes) {
    const auto texts =
        errors_of(2, [&, change = change](const SharedGroup& group) {
          DdpOptions options;
          if (group->rank() == 1) change(options);
          DistributedDataParallel ddp(Net(), group, options);
          ddp(input_of(0));  // where those without init_sync compare
        });
    for (const auto& text : texts) EXPECT_THAT(text, HasSubstr(name));
  }
}

TEST(WrapperErrors, AWrongArgumentOnOneRankIsToldToTheOthers) {
  const auto texts = errors_of(3, [](const SharedGroup& group) {
    DdpOptions options;
    if (group->rank() == 1) options.ignored = {"no.such.name"};
    DistributedDataParallel ddp(Net(), group, options);
  });
  for (const auto& text : texts) EXPECT_THAT(text, HasSubstr("no.such.name"));
  EXPECT_THAT(texts[0], HasSubstr("rank 1"));
}

// ---- Changes after wrapping.

TEST(WrapperErrors, AConversionAfterWrappingIsNoticedAtTheNextForward) {
  on_ranks(2, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    ddp(input_of(0)).sum().backward();
    ddp->to(at::kDouble);
    EXPECT_THAT(
        message_of<UsageError>([&] { ddp(input_of(0).to(at::kDouble)); }),
        AllOf(HasSubstr("converted"), HasSubstr("'scale'"),
              HasSubstr("then make a DistributedDataParallel")));
  });
}

TEST(WrapperErrors, AReplacedParameterIsNoticedAtTheNextForward) {
  struct Changing : torch::nn::Module {
    Changing() { register_parameter("w", at::ones({2})); }
    at::Tensor forward(const at::Tensor& x) { return x * parameters_["w"]; }
    void replace() { parameters_["w"] = at::ones({2}).set_requires_grad(true); }
    void add() { register_parameter("more", at::ones({2})); }
  };
  on_ranks(2, [](const SharedGroup& group) {
    auto one = std::make_shared<Changing>();
    DistributedDataParallel ddp(one, group);
    ddp(at::ones({2})).sum().backward();
    one->replace();
    EXPECT_THAT(message_of<UsageError>([&] { ddp(at::ones({2})); }),
                AllOf(HasSubstr("'w'"), HasSubstr("replaced")));
    auto two = std::make_shared<Changing>();
    DistributedDataParallel other(two, group);
    two->add();
    EXPECT_THAT(message_of<UsageError>([&] { other(at::ones({2})); }),
                AllOf(HasSubstr("'more'"), HasSubstr("added")));
  });
}

TEST(WrapperErrors, AThawedParameterIsNoticedAtTheNextForward) {
  on_ranks(1, [](const SharedGroup& group) {
    Net net;
    DistributedDataParallel ddp(net, group);
    net->frozen.set_requires_grad(true);
    EXPECT_THAT(message_of<UsageError>([&] { ddp(input_of(0)); }),
                AllOf(HasSubstr("'frozen'"), HasSubstr("was frozen")));
  });
}

// ---- Steps that cannot end well.

TEST(WrapperErrors, ADelayedParameterWithoutAGradientOnOneRankIsNamed) {
  const auto texts = errors_of(2, [](const SharedGroup& group) {
    DdpOptions options;
    options.delayed = {{"scale", "first.bias"}, "first.bias"};
    Net net;
    DistributedDataParallel ddp(net, group, options);
    const at::Tensor out = ddp(input_of(0));
    // Rank 1 uses the second layer only, and the first one's weight.
    at::Tensor loss = net->second(input_of(0).mm(net->first->weight.t())).sum();
    (group->rank() == 0 ? out.sum() : loss).backward();
  });
  EXPECT_THAT(texts[1],
              AllOf(HasSubstr("'scale'"), HasSubstr("'first.bias'"),
                    HasSubstr("Expected to have finished reduction")));
  EXPECT_THAT(texts[0], HasSubstr("'scale'"));  // told
}

TEST(WrapperErrors, StaticGraphAndSearchTogetherAreWarnedOf) {
  std::string lines;
  const LogSink before = set_log_sink(
      [&](LogLevel, const std::string& line) { lines += line + "\n"; });
  on_ranks(1, [](const SharedGroup& group) {
    DdpOptions options;
    options.static_graph = true;
    options.find_unused_parameters = true;
    DistributedDataParallel ddp(Net(), group, options);
  });
  set_log_sink(before);
  EXPECT_THAT(lines, HasSubstr("find_unused_parameters is not needed"));
}

}  // namespace
}  // namespace lockstep

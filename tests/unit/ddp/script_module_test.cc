// SPDX-License-Identifier: Apache-2.0
// TorchScript modules, several modules, and models of a program's own kind.
#include "lockstep/ddp/script_module.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::on_ranks;
using testing::SharedGroup;

// The same net as a module and as a script: Linear, batch norm, Linear.
struct PlainNetImpl : torch::nn::Module {
  PlainNetImpl()
      : first(register_module("first", torch::nn::Linear(4, 6))),
        norm(register_module("norm", torch::nn::BatchNorm1d(6))),
        second(register_module("second", torch::nn::Linear(6, 2))) {}
  at::Tensor forward(const at::Tensor& x) {
    return second(torch::relu(norm(first(x))));
  }
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};
TORCH_MODULE(PlainNet);

torch::jit::Module script_of(const PlainNet& net) {
  torch::jit::Module script("ScriptNet");
  script.register_attribute("training", c10::BoolType::get(), true);
  const auto put = [&](const char* name, const at::Tensor& value, bool buffer) {
    if (buffer) {
      script.register_buffer(name, value.detach().clone());
    } else {
      script.register_parameter(
          name, value.detach().clone().set_requires_grad(true), false);
    }
  };
  put("w1", net->first->weight, false);
  put("b1", net->first->bias, false);
  put("nw", net->norm->weight, false);
  put("nb", net->norm->bias, false);
  put("w2", net->second->weight, false);
  put("b2", net->second->bias, false);
  put("mean", net->norm->running_mean, true);
  put("var", net->norm->running_var, true);
  script.define(R"(
    def forward(self, x):
        h = torch.linear(x, self.w1, self.b1)
        h = torch.batch_norm(h, self.nw, self.nb, self.mean, self.var,
                             self.training, 0.1, 1e-5, False)
        return torch.linear(torch.relu(h), self.w2, self.b2)
    def parts(self, x):
        y = self.forward(x)
        return {"a": [y, y + 1], "b": [x]}, 7
  )");
  return script;
}

at::Tensor batch_of(int step, int rank) {
  return torch::arange(20, at::kFloat).reshape({5, 4}).sin() * (rank + 1) +
         step;
}

std::vector<at::Tensor> tensors(const torch::jit::Module& script) {
  std::vector<at::Tensor> all;
  for (const auto& one : script.parameters()) all.push_back(one);
  return all;
}

TEST(ScriptModule, TrainsAsTheSameNetDoes) {
  torch::manual_seed(3);
  const PlainNet origin;
  on_ranks(2, [&](const SharedGroup& group) {
    const PlainNet net(std::dynamic_pointer_cast<PlainNetImpl>(
        std::make_shared<PlainNetImpl>()));
    {
      const at::NoGradGuard no_grad;
      for (size_t i = 0; i < net->parameters().size(); ++i) {
        net->parameters()[i].copy_(origin->parameters()[i]);
      }
    }
    torch::jit::Module script = script_of(net);
    // Rank 1 begins with other values: it gets rank 0's.
    if (group->rank() == 1) {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& one : tensors(script)) one.add_(1);
      script.attr("mean").toTensor().add_(5);
    }
    DistributedDataParallel plain(net, group);
    DistributedDataParallel ddp(script, group);
    torch::optim::SGD plain_optimizer(plain->parameters(), 0.1);
    torch::optim::SGD optimizer(tensors(script), 0.1);
    for (int step = 0; step < 5; ++step) {
      const at::Tensor batch = batch_of(step, group->rank());
      plain_optimizer.zero_grad();
      optimizer.zero_grad();
      plain(batch).pow(2).sum().backward();
      ddp({batch}).toTensor().pow(2).sum().backward();
      plain_optimizer.step();
      optimizer.step();
    }
    const auto expected = net->parameters();
    const auto got = tensors(ddp.module());
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(at::allclose(got[i], expected[i])) << i;
    }
    EXPECT_TRUE(
        at::allclose(script.attr("mean").toTensor(), net->norm->running_mean));
    EXPECT_EQ(ddp.stats().module_name, "ScriptNet");
    ddp->eval();
    EXPECT_NO_THROW(ddp({batch_of(0, 0)}));
  });
}

TEST(ScriptModule, ErrorsNameItsParameters) {
  on_ranks(1, [](const SharedGroup& group) {
    const torch::jit::Module script = script_of(PlainNet());
    DdpOptions options;
    options.ignored = {"w3"};
    EXPECT_THAT(message_of<UsageError>([&] {
                  DistributedDataParallel ddp(script, group, options);
                }),
                HasSubstr("did you mean 'w"));
  });
}

TEST(ScriptModule, TensorsAreFoundInWhateverItReturns) {
  torch::jit::Module script = script_of(PlainNet());
  const c10::IValue value = script.get_method("parts")({batch_of(0, 0)});
  std::vector<at::Tensor> found = detail::tensors_of(value);
  ASSERT_EQ(found.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    found[i] = torch::full({1}, static_cast<double>(i));
  }
  const c10::IValue changed = detail::with_tensors(value, found);
  const auto elements = changed.toTuple()->elements();
  EXPECT_EQ(elements[1].toInt(), 7);
  const auto dict = elements[0].toGenericDict();
  EXPECT_EQ(dict.at("a").toTensorVector()[1].item<float>(), 1);
  EXPECT_EQ(dict.at("b").toTensorVector()[0].item<float>(), 2);
}

// An actor and a critic, trained as one.
class ActorCritic : public DataParallelCore {
 public:
  ActorCritic(torch::nn::Linear actor, torch::nn::Linear critic,
              SharedGroup group)
      : DataParallelCore(wrapped({actor.ptr(), critic.ptr()}), std::move(group),
                         {}),
        actor_(std::move(actor)),
        critic_(std::move(critic)) {}

  at::Tensor forward(const at::Tensor& x) {
    const bool synced = begin_forward();
    at::Tensor a = actor_(x);
    at::Tensor b = critic_(x);
    end_forward({&a, &b}, synced);
    return a.sum() + b.sum();
  }

 private:
  torch::nn::Linear actor_;
  torch::nn::Linear critic_;
};

TEST(WrappedModel, SeveralModulesShareAReducer) {
  on_ranks(2, [](const SharedGroup& group) {
    torch::nn::Linear actor(3, 1);
    torch::nn::Linear critic(3, 1);
    ActorCritic pair(actor, critic, group);
    EXPECT_THAT(
        pair.reducer().names(),
        ::testing::ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
    pair.forward(torch::ones({1, 3}) * (group->rank() + 1)).backward();
    EXPECT_TRUE(testing::is_all(actor->weight.grad(), 1.5));
    EXPECT_TRUE(testing::is_all(critic->weight.grad(), 1.5));
  });
}

TEST(Handle, KnowsWhenTheWrapperIsGone) {
  on_ranks(1, [](const SharedGroup& group) {
    auto ddp = std::make_unique<DistributedDataParallel<torch::nn::Linear>>(
        torch::nn::Linear(1, 1), group);
    const auto handle = ddp->handle();
    EXPECT_EQ(&*handle, ddp.get());
    EXPECT_EQ(handle->reducer().names().size(), 2U);
    ddp.reset();
    EXPECT_EQ(handle.get(), nullptr);
    EXPECT_THAT(message_of<UsageError>([&] { (void)*handle; }),
                HasSubstr("the wrapped model no longer exists"));
  });
}

}  // namespace
}  // namespace lockstep

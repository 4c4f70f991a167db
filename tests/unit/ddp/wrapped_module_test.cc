// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/ddp/wrapped_model.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<std::string> names_in(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(WrappedModule, HasTheNamesAndTensorsOfTheModule) {
  const torch::nn::Sequential net(torch::nn::Linear(2, 1),
                                  torch::nn::BatchNorm1d(1));
  const auto model = wrapped(net.ptr());
  EXPECT_THAT(names_in(model->parameters()),
              ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  EXPECT_THAT(
      names_in(model->buffers()),
      ElementsAre("1.running_mean", "1.running_var", "1.num_batches_tracked"));
  const auto tensors = model->parameter_tensors();
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_TRUE(tensors[1].is_same(model->parameters()[1].second));
  EXPECT_THAT(model->name(), HasSubstr("Sequential"));
  EXPECT_FALSE(model->has_sync_batch_norm());
  EXPECT_EQ(wrapped(std::shared_ptr<torch::nn::Module>()), nullptr);
}

TEST(WrappedModule, SeveralModulesHaveNumbersAndTrainTogether) {
  const torch::nn::Linear actor(2, 1);
  const torch::nn::Linear critic(2, 1);
  const auto model = wrapped({actor.ptr(), critic.ptr()});
  EXPECT_THAT(names_in(model->parameters()),
              ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
  ASSERT_EQ(model->parameter_tensors().size(), 4U);
  EXPECT_TRUE(model->parameter_tensors()[2].is_same(critic->weight));
  EXPECT_TRUE(model->is_training());
  critic.ptr()->eval();
  EXPECT_FALSE(model->is_training());
}

TEST(WrappedModule, NoModulesOrANullAreRefused) {
  using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;
  EXPECT_THAT(message_of<UsageError>([] { wrapped(Modules{}); }),
              HasSubstr("no modules"));
  EXPECT_THAT(message_of<UsageError>([] { wrapped(Modules{nullptr}); }),
              HasSubstr("null"));
}

TEST(WrappedModule, FindsEmbeddingsThatAskForSparseGradients) {
  torch::nn::Embedding dense(3, 2);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(3, 2).sparse(true));
  torch::nn::EmbeddingBag bag(
      torch::nn::EmbeddingBagOptions(3, 2).sparse(true));
  torch::nn::ModuleList list(dense, table, bag);
  const auto sparse = wrapped(list.ptr())->sparse_parameters();
  ASSERT_EQ(sparse.size(), 2U);
  EXPECT_TRUE(sparse[0].is_same(table->weight));
  EXPECT_TRUE(sparse[1].is_same(bag->weight));
}

// A model of a program's own kind.
class TwoTensors : public WrappedModel {
 public:
  std::string name() const override { return "two"; }
  NamedTensors parameters() const override { return {{"x", x}, {"y", y}}; }
  NamedTensors buffers() const override { return {}; }
  bool is_training() const override { return true; }

  const at::Tensor x = at::ones({1});
  const at::Tensor y = at::ones({2});
};

TEST(WrappedModel, FindsItsTensorsByNameUnlessItKnowsAQuickerWay) {
  const TwoTensors model;
  const auto tensors = model.parameter_tensors();
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_TRUE(tensors[1].is_same(model.y));
  EXPECT_TRUE(model.sparse_parameters().empty());
}

}  // namespace
}  // namespace lockstep

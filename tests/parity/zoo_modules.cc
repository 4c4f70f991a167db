// SPDX-License-Identifier: Apache-2.0
// Models made of libtorch's modules.
#include <ATen/ATen.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include "parity/zoo.h"

namespace lockstep::testing {
namespace {

namespace nn = torch::nn;

// What modules are registered with.
class ModuleModel : public Model {
 protected:
  using Model::Model;

  template <class Holder>
  Holder add(const std::string& name, Holder holder) {
    holder->to(dtype());
    for (const auto& item : holder->named_parameters()) {
      adopt_parameter(name + "." + item.key(), item.value());
    }
    for (const auto& item : holder->named_buffers()) {
      adopt_buffer(item.value());
    }
    return holder;
  }

  at::Tensor distance(const at::Tensor& output, int step, int shard) const {
    return (output - data(step, shard + 50, output.sizes())).square().mean();
  }
};

class Mlp : public ModuleModel {
 public:
  using ModuleModel::ModuleModel;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {4, 6});
    return distance(out_(at::tanh(middle_(at::tanh(in_(x))))), step, shard);
  }

 private:
  nn::Linear in_ = add("in", nn::Linear(6, 16));
  nn::Linear middle_ = add("middle", nn::Linear(16, 12));
  nn::Linear out_ = add("out", nn::Linear(12, 3));
};

class ConvNet : public ModuleModel {
 public:
  using ModuleModel::ModuleModel;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {3, 3, 8, 8}).contiguous(format_);
    at::Tensor y = at::relu(norm_(conv_(x)));
    // What batch norm has seen so far counts too: each shard has its own.
    y = y + norm_->running_mean.clone().view({1, 8, 1, 1});
    y = second_(y).mean({2, 3});
    return distance(out_(y), step, shard);
  }

 protected:
  ConvNet(uint64_t seed, at::ScalarType dtype, at::MemoryFormat format)
      : ModuleModel(seed, dtype), format_(format) {
    for (const at::Tensor& one : parameters()) {
      if (one.dim() == 4) one.set_data(one.detach().contiguous(format_));
    }
  }

 private:
  const at::MemoryFormat format_ = at::MemoryFormat::Contiguous;
  nn::Conv2d conv_ = add("conv", nn::Conv2d(nn::Conv2dOptions(3, 8, 3)));
  nn::BatchNorm2d norm_ = add("norm", nn::BatchNorm2d(8));
  nn::Conv2d second_ =
      add("second", nn::Conv2d(nn::Conv2dOptions(8, 4, 2).bias(false)));
  nn::Linear out_ = add("out", nn::Linear(4, 2));
};

class ChannelsLastConvNet : public ConvNet {
 public:
  ChannelsLastConvNet(uint64_t seed, at::ScalarType dtype)
      : ConvNet(seed, dtype, at::MemoryFormat::ChannelsLast) {}
};

// One block: attention with two heads, then two layers, each with a norm
// before it and a way around it.
class Transformer : public ModuleModel {
 public:
  using ModuleModel::ModuleModel;

  at::Tensor loss(int step, int shard) override {
    at::Tensor x = data(step, shard, {kBatch, kLength, kWidth});
    x = x + attention(norm1_(x));
    x = x + out_(at::gelu(in_(norm2_(x))));
    return distance(x, step, shard);
  }

 private:
  static constexpr int64_t kBatch = 2;
  static constexpr int64_t kLength = 5;
  static constexpr int64_t kWidth = 8;
  static constexpr int64_t kHeads = 2;

  at::Tensor attention(const at::Tensor& x) {
    const auto parts =
        qkv_(x).view({kBatch, kLength, 3, kHeads, -1}).permute({2, 0, 3, 1, 4});
    const at::Tensor weights =
        at::matmul(parts[0], parts[1].transpose(-2, -1)) * 0.5;
    const at::Tensor heads = at::matmul(at::softmax(weights, -1), parts[2]);
    return join_(heads.transpose(1, 2).reshape({kBatch, kLength, kWidth}));
  }

  nn::LayerNorm norm1_ =
      add("norm1", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear qkv_ = add("qkv", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear join_ = add("join", nn::Linear(kWidth, kWidth));
  nn::LayerNorm norm2_ =
      add("norm2", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  nn::Linear in_ = add("in", nn::Linear(kWidth, 2 * kWidth));
  nn::Linear out_ = add("out", nn::Linear(2 * kWidth, kWidth));
};

class Lstm : public ModuleModel {
 public:
  using ModuleModel::ModuleModel;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {5, 2, 4});
    const at::Tensor all = std::get<0>(lstm_(x));
    return distance(out_(all[-1]), step, shard);
  }

 private:
  nn::LSTM lstm_ = add("lstm", nn::LSTM(nn::LSTMOptions(4, 6).num_layers(2)));
  nn::Linear out_ = add("out", nn::Linear(6, 2));
};

}  // namespace

std::vector<ModelKind> module_models() {
  return {{"Mlp", maker<Mlp>()},
          {"ConvNet", maker<ConvNet>()},
          {"ChannelsLastConvNet", maker<ChannelsLastConvNet>()},
          {"Transformer", maker<Transformer>()},
          {"Lstm", maker<Lstm>()}};
}

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#include "ddp/models.h"

#include <torch/torch.h>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

namespace nn = torch::nn;

nn::Sequential make_mlp(int layers, int64_t width, bool bias) {
  nn::Sequential net;
  for (int i = 0; i < layers; ++i) {
    if (i > 0) net->push_back(nn::ReLU());
    net->push_back(nn::Linear(nn::LinearOptions(width, width).bias(bias)));
  }
  return net;
}

nn::Sequential make_conv() {
  nn::Sequential net;
  const int64_t channels[] = {3, 32, 64, 64};
  for (int i = 0; i < 3; ++i) {
    net->push_back(nn::Conv2d(
        nn::Conv2dOptions(channels[i], channels[i + 1], 3).padding(1)));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool2d(2));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(64 * 4 * 4, 256));
  net->push_back(nn::ReLU());
  net->push_back(nn::Linear(256, 10));
  return net;
}

nn::Sequential make_transformer() {
  nn::Sequential net;
  for (int i = 0; i < 2; ++i) {
    net->push_back(
        nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(256, 4)
                                        .dim_feedforward(1024)
                                        .dropout(0)));
  }
  return net;
}

}  // namespace

at::Tensor Model::loss_of(const at::Tensor& output) const {
  return torch::mse_loss(output, target);
}

Model make_model(const std::string& name, int64_t batch, int rank) {
  Model model;
  torch::manual_seed(0);
  std::vector<int64_t> shape;
  if (name == "mlp25") {
    model.net = make_mlp(6, 1024, true);
    shape = {batch, 1024};
  } else if (name == "conv") {
    model.net = make_conv();
    shape = {batch, 3, 32, 32};
  } else if (name == "transformer") {
    model.net = make_transformer();
    shape = {64, batch, 256};
  } else if (name == "layers24") {
    model.net = make_mlp(24, 512, false);
    shape = {batch, 512};
  } else {
    throw UsageError("there is no model '" + name + "'");
  }
  torch::manual_seed(static_cast<uint64_t>(rank) + 1);
  model.input = torch::randn(shape);
  const torch::NoGradGuard no_grad;
  model.target = torch::randn_like(model.net->forward(model.input));
  return model;
}

}  // namespace lockstep::bench

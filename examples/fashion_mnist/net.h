// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

// From images of 28x28 pixels to a number for each of ten kinds of clothes. It
// is a module as for one process: nothing in it knows of ranks.
struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    x = torch::relu(hidden(x.flatten(1)));
    return kinds(torch::dropout(x, 0.25, is_training()));
  }

  torch::nn::Conv2d conv1 = register_module(
      "conv1",
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
  torch::nn::Conv2d conv2 = register_module(
      "conv2",
      torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
  torch::nn::Linear hidden =
      register_module("hidden", torch::nn::Linear(32 * 7 * 7, 256));
  torch::nn::Linear kinds =
      register_module("kinds", torch::nn::Linear(256, 10));
};
TORCH_MODULE(Net);

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/modules/container/sequential.h>

namespace lockstep::bench {

// What is trained: a net, and data that stay the same in all steps.
struct Model {
  torch::nn::Sequential net;
  at::Tensor input;
  at::Tensor target;

  at::Tensor loss_of(const at::Tensor& output) const;  // mean squared error
};

// By name; pytorch_worker.py has the same ones.
//
//   mlp25        6 linear layers of 1024 with ReLU between them: 25 MB
//   conv         3 convolutions and 2 linear layers on pictures of 3x32x32
//   transformer  2 encoder layers of 256, 4 heads, 64 positions
//   layers24     24 linear layers of 512 without bias: 24 x 1 MiB
//
// Weights are the same on all ranks, data are different.
// Errors: UsageError for another name.
Model make_model(const std::string& name, int64_t batch, int rank);

}  // namespace lockstep::bench

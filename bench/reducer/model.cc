// SPDX-License-Identifier: Apache-2.0
#include "reducer/model.h"

#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

namespace lockstep::bench {

Model make_leaves(int64_t count) {
  constexpr int64_t kElements = kLeafBytes / sizeof(float);
  Model model;
  for (int64_t i = 0; i < count; ++i) {
    model.parameters.push_back(at::zeros({kElements}).set_requires_grad(true));
  }
  model.loss = [parameters = model.parameters] {
    return at::cat(parameters).sum();
  };
  return model;
}

Model make_mlp(const MlpShape& shape) {
  Model model;
  const double scale = 1 / std::sqrt(static_cast<double>(shape.width));
  for (int i = 0; i < shape.layers; ++i) {
    const at::Tensor weight = at::randn({shape.width, shape.width}).mul_(scale);
    model.parameters.push_back(weight.set_requires_grad(true));
    model.parameters.push_back(
        at::zeros({shape.width}).set_requires_grad(true));
  }
  model.loss = [parameters = model.parameters,
                input = at::randn({shape.batch, shape.width})] {
    at::Tensor x = input;
    for (size_t i = 0; i < parameters.size(); i += 2) {
      x = at::relu(at::linear(x, parameters[i], parameters[i + 1]));
    }
    return x.pow(2).mean();
  };
  return model;
}

void train_step(Model& model, Reducer* reducer) {
  for (const at::Tensor& parameter : model.parameters) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
  if (reducer != nullptr) reducer->prepare_for_forward();
  const at::Tensor loss = model.loss();
  if (reducer != nullptr) reducer->prepare_for_backward({loss});
  loss.backward();
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : model.parameters) {
    parameter.sub_(parameter.grad(), 1e-3);
  }
}

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ddp/reducer.h"

namespace lockstep::bench {

// What is trained: parameters, and a loss of them.
struct Model {
  std::vector<at::Tensor> parameters;
  std::function<at::Tensor()> loss;
};

// Parameters of 1 KB each; the loss is the sum of all.
constexpr size_t kLeafBytes = 1024;
constexpr size_t kLeafBucketBytes = 10 * kLeafBytes;  // ten to a bucket
Model make_leaves(int64_t count);

// Linear layers with bias, all of one width, and a ReLU behind each.
struct MlpShape {
  int layers;
  int64_t width;
  int64_t batch;
};
Model make_mlp(const MlpShape& shape);
inline MlpShape small_mlp(int layers) { return {layers, 64, 32}; }

// A whole step: gradients are set to zero in place, forward, backward, SGD
// without momentum. Gradients are reduced when there is a Reducer.
void train_step(Model& model, Reducer* reducer);

}  // namespace lockstep::bench

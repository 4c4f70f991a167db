// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/backend/local.h"
#include "lockstep/ddp/reducer.h"
#include "support/support.h"

namespace lockstep::testing {

using Tensors = std::vector<at::Tensor>;
using SharedGroup = std::shared_ptr<ProcessGroup>;

// Runs `body` on `size` ranks, as threads; the first exception is thrown here.
inline void on_ranks(int size,
                     const std::function<void(const SharedGroup&)>& body) {
  GroupOptions options;
  options.timeout = std::chrono::seconds(30);
  auto groups = make_local_groups(size, options);
  run_threads(size, [&](int rank) {
    // A rank that fails leaves, so that the others do not wait for it.
    const auto group = std::move(groups[static_cast<size_t>(rank)]);
    body(group);
  });
}

inline at::Tensor parameter(at::IntArrayRef sizes,
                            at::ScalarType type = at::kFloat) {
  return at::ones(sizes, type).set_requires_grad(true);
}

// `count` parameters of four elements.
inline Tensors some_parameters(size_t count) {
  Tensors all;
  for (size_t i = 0; i < count; ++i) all.push_back(parameter({4}));
  return all;
}

inline Tensors pick(const Tensors& all, const std::vector<size_t>& indices) {
  Tensors some;
  for (const size_t index : indices) some.push_back(all[index]);
  return some;
}

// A loss whose gradient is `factor` for every element of the parameters.
inline at::Tensor loss_of(const Tensors& parameters, double factor) {
  at::Tensor loss = at::zeros({});
  for (const at::Tensor& one : parameters) loss = loss + one.sum() * factor;
  return loss;
}

inline bool is_all(const at::Tensor& tensor, double value) {
  return tensor.defined() && at::all(tensor.eq(value)).item<bool>();
}

// One step in which rank r's gradients are r + 1; their average is what
// mean_of(size) says.
inline void step(Reducer& reducer, const Tensors& parameters, int rank) {
  reducer.prepare_for_forward();
  const at::Tensor loss = loss_of(parameters, rank + 1);
  reducer.prepare_for_backward({loss});
  loss.backward();
}
inline double mean_of(int size) { return (size + 1) / 2.0; }

inline void clear_gradients(const Tensors& parameters) {
  for (const at::Tensor& one : parameters) one.mutable_grad().reset();
}

}  // namespace lockstep::testing

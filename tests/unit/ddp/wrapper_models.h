// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include "lockstep/ddp/distributed_data_parallel.h"
#include "lockstep/tensor/collectives.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::testing {

// Two layers that start differently on every rank, a frozen parameter, a buffer
// that counts forwards, one that nobody changes, and one of the root.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(double start = 1)
      : first(register_module("first", torch::nn::Linear(2, 3))),
        second(register_module("second", torch::nn::Linear(3, 2))),
        scale(register_parameter("scale", at::full({2}, start))),
        frozen(register_parameter("frozen", at::full({2}, start), false)),
        count(register_buffer("count", at::zeros({1}))),
        table(register_buffer("table", at::full({3}, start))) {
    const at::NoGradGuard no_grad;
    for (auto& one : first->parameters()) one.fill_(start);
    for (auto& one : second->parameters()) one.fill_(start);
  }
  at::Tensor forward(const at::Tensor& x) {
    if (is_training()) {
      const at::NoGradGuard no_grad;
      count += 1;
    }
    return second(first(x)) * scale + frozen;
  }

  torch::nn::Linear first, second;
  at::Tensor scale, frozen, count, table;
};
TORCH_MODULE(Net);

// One scalar; what it returns is chosen by how it is called.
struct ScalarImpl : torch::nn::Module {
  ScalarImpl() : w(register_parameter("w", at::ones({1}))) {}
  template <class F>
  auto forward(F&& f) {
    return f(w);
  }
  at::Tensor w;
};
TORCH_MODULE(Scalar);

inline at::Tensor input_of(int rank) { return at::full({4, 2}, rank + 1.0); }

// Whether `tensor` is the same on all ranks, bit by bit.
inline bool is_alike(const SharedGroup& group, const at::Tensor& tensor) {
  at::Tensor highest = tensor.detach().clone();
  at::Tensor lowest = highest.clone();
  all_reduce(group, highest, ReduceOp::kMax)->wait();
  all_reduce(group, lowest, ReduceOp::kMin)->wait();
  return at::equal(highest, lowest);
}

template <class Ddp>
void step(Ddp& ddp, int rank) {
  ddp(input_of(rank)).sum().backward();
}

inline void descend(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  for (at::Tensor one : parameters) {
    if (one.grad().defined()) one -= one.grad() * 0.01;
  }
}

}  // namespace lockstep::testing

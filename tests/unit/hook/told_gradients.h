// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "lockstep/ddp/reducer.h"
#include "lockstep/hook/comm_hook.h"
#include "lockstep/tensor/collectives.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::testing {

using Shapes = std::vector<std::vector<int64_t>>;

inline Tensors parameters_of(const Shapes& shapes) {
  Tensors all;
  for (const auto& sizes : shapes) all.push_back(parameter(sizes));
  return all;
}

// Numbers that depend on `seed` only.
inline at::Tensor random_of(const std::vector<int64_t>& sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

// Gradients of one rank in one step.
inline Tensors random_gradients(const Shapes& shapes, int step, int rank) {
  Tensors all;
  for (size_t i = 0; i < shapes.size(); ++i) {
    all.push_back(random_of(shapes[i], 1000 * static_cast<uint64_t>(step) +
                                           100 * static_cast<uint64_t>(rank) +
                                           i));
  }
  return all;
}

// Of a rank that is lower than their sizes: matrices whose columns are in
// `rank_of_matrix` directions, which all ranks share.
inline at::Tensor low_rank(int64_t rows, int64_t cols, int64_t rank_of_matrix,
                           uint64_t seed, uint64_t seed_of_rank) {
  return random_of({rows, rank_of_matrix}, seed)
      .mm(random_of({rank_of_matrix, cols}, 77 * (seed + 1) + seed_of_rank));
}

// A loss of which these are the gradients.
inline at::Tensor loss_with(const Tensors& parameters,
                            const Tensors& gradients) {
  at::Tensor loss = at::zeros({});
  for (size_t i = 0; i < parameters.size(); ++i) {
    loss = loss + (parameters[i] * gradients[i]).sum().to(at::kFloat);
  }
  return loss;
}

// A Reducer with a hook, and a backward that computes what it is told.
struct ToldRank {
  ToldRank(Tensors all, const SharedGroup& group, const CommHook& hook,
           const ReducerOptions& options = {})
      : parameters(std::move(all)),
        reducer(std::make_unique<Reducer>(parameters, group, options)) {
    reducer->register_comm_hook(hook);
  }

  // Copies of what the gradients become.
  Tensors step(const Tensors& gradients) {
    clear_gradients(parameters);
    accumulate(gradients);
    Tensors results;
    for (const at::Tensor& one : parameters) {
      results.push_back(one.grad().clone());
    }
    return results;
  }

  void accumulate(const Tensors& gradients) {
    reducer->prepare_for_forward();
    const at::Tensor loss = loss_with(parameters, gradients);
    reducer->prepare_for_backward({loss});
    loss.backward();
  }

  Tensors parameters;
  std::unique_ptr<Reducer> reducer;
};

// The average over ranks of what `gradients(rank)` are, in double.
template <class Gradients>
Tensors mean_over_ranks(int ranks, const Gradients& gradients) {
  Tensors means;
  for (int rank = 0; rank < ranks; ++rank) {
    const Tensors some = gradients(rank);
    means.resize(some.size());
    for (size_t i = 0; i < some.size(); ++i) {
      const at::Tensor part = some[i].to(at::kDouble) / ranks;
      means[i] = means[i].defined() ? means[i] + part : part;
    }
  }
  return means;
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

// Relative to the length of `expected`.
inline double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  return distance(actual, expected) /
         expected.to(at::kDouble).norm().item<double>();
}

inline bool same_bits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

// Whether all ranks have the numbers of rank 0. A collective.
inline bool same_on_ranks(const SharedGroup& group, const Tensors& tensors) {
  Tensors of_rank_0;
  for (const at::Tensor& one : tensors) {
    of_rank_0.push_back(one.clone());
    broadcast(group, of_rank_0.back())->wait();
  }
  const at::Tensor differing =
      at::full({1}, same_bits(of_rank_0, tensors) ? 0 : 1, at::kInt);
  all_reduce(group, differing)->wait();
  return differing.item<int>() == 0;
}

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}  // namespace torch::nn
namespace torch::jit {
struct Module;
}  // namespace torch::jit

namespace lockstep {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A model to be trained in parallel: its named parameters and buffers, and
// whether it is in training mode. The functions below make one of modules; a
// program with another kind of model derives its own and gives it to
// DataParallelCore.
//
// Threads: as for the model itself.
class WrappedModel {
 public:
  virtual ~WrappedModel() = default;

  // For errors and stats.
  virtual std::string name() const = 0;
  // In the same order on all ranks. A parameter that is used in two places may
  // be listed under both names; undefined tensors are ignored.
  virtual NamedTensors parameters() const = 0;
  virtual NamedTensors buffers() const = 0;
  // While it is false, forward is that of the model alone.
  virtual bool is_training() const = 0;

  // The tensors of parameters(). Called before every forward, so it should be
  // quick.
  virtual std::vector<at::Tensor> parameter_tensors() const;
  // Parameters whose gradients are known to be sparse.
  virtual std::vector<at::Tensor> sparse_parameters() const { return {}; }
  // Weights and biases of batch normalisation, which must have the type of the
  // running statistics: for mixed precision.
  virtual std::vector<at::Tensor> normalising_parameters() const { return {}; }
  // Its batch normalisation averages over the ranks itself: for stats.
  virtual bool has_sync_batch_norm() const { return false; }
};

// The model of a module, which is shared with its owner; null when the module
// is null.
std::shared_ptr<WrappedModel> wrapped(
    std::shared_ptr<torch::nn::Module> module);

// The model of several modules that are trained together (an actor and a
// critic). Names begin with the number of the module: "0.weight". It is in
// training mode when all modules are.
std::shared_ptr<WrappedModel> wrapped(
    std::vector<std::shared_ptr<torch::nn::Module>> modules);

// The model of a TorchScript module, as torch::jit::load() returns it.
std::shared_ptr<WrappedModel> wrapped(const torch::jit::Module& module);

}  // namespace lockstep

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

// What is trained in parallel: named parameters and buffers, and whether they
// are being trained now. Functions below make it of modules; a program with
// another kind of model derives its own and gives that to DataParallelCore.
//
// Threads: as for the model itself.
class WrappedModel {
 public:
  virtual ~WrappedModel() = default;

  // For errors and stats.
  virtual std::string name() const = 0;
  // In the same order on all ranks. A parameter that is used in two places may
  // be there under both names; undefined tensors are passed over.
  virtual NamedTensors parameters() const = 0;
  virtual NamedTensors buffers() const = 0;
  // False: forward is that of the model alone.
  virtual bool is_training() const = 0;

  // The tensors of parameters(): asked before every forward, so it should be
  // quick.
  virtual std::vector<at::Tensor> parameter_tensors() const;
  // Those whose gradients are sparse, as far as the model knows.
  virtual std::vector<at::Tensor> sparse_parameters() const { return {}; }
  // It averages over the ranks itself in batch normalisation: for stats.
  virtual bool has_sync_batch_norm() const { return false; }
};

// Of a module, which is shared with its owner; null when the module is null.
std::shared_ptr<WrappedModel> wrapped(
    std::shared_ptr<torch::nn::Module> module);

// Of several modules that are trained together (an actor and a critic): names
// begin with the number of the module, "0.weight". It trains when all of them
// do.
std::shared_ptr<WrappedModel> wrapped(
    std::vector<std::shared_ptr<torch::nn::Module>> modules);

// Of a TorchScript module, as torch::jit::load() returns it.
std::shared_ptr<WrappedModel> wrapped(const torch::jit::Module& module);

}  // namespace lockstep

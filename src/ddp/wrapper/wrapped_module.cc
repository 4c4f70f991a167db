// SPDX-License-Identifier: Apache-2.0
// Modules of torch::nn as a WrappedModel.
#include <algorithm>

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>

#include "lockstep/base/error.h"
#include "lockstep/ddp/wrapped_model.h"

namespace lockstep {
namespace {

template <class Dict>
void append(NamedTensors& named, const std::string& prefix, const Dict& dict) {
  for (const auto& one : dict) {
    named.emplace_back(prefix + one.key(), one.value());
  }
}

// Appends the weight of an embedding that was made with sparse(true).
template <class Embedding>
void append_sparse(std::vector<at::Tensor>& weights,
                   const torch::nn::Module& module) {
  const auto* embedding = module.as<Embedding>();
  if (embedding && embedding->options.sparse()) {
    weights.push_back(embedding->weight);
  }
}

template <class BatchNorm>
void append_normalising(std::vector<at::Tensor>& parameters,
                        const torch::nn::Module& module) {
  const auto* norm = module.as<BatchNorm>();
  if (!norm) return;
  for (const at::Tensor& one : norm->parameters()) parameters.push_back(one);
}

class WrappedModules : public WrappedModel {
 public:
  using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

  // With `numbered`, names begin with the number of their module.
  WrappedModules(Modules modules, bool numbered)
      : modules_(std::move(modules)), numbered_(numbered) {}

  std::string name() const override {
    std::string text;
    for (const auto& one : modules_) {
      text += (text.empty() ? "" : ", ") + one->name();
    }
    return text;
  }
  NamedTensors parameters() const override {
    NamedTensors named;
    for (size_t i = 0; i < modules_.size(); ++i) {
      append(named, prefix(i), modules_[i]->named_parameters());
    }
    return named;
  }
  NamedTensors buffers() const override {
    NamedTensors named;
    for (size_t i = 0; i < modules_.size(); ++i) {
      append(named, prefix(i), modules_[i]->named_buffers());
    }
    return named;
  }
  std::vector<at::Tensor> parameter_tensors() const override {
    if (modules_.size() == 1) return modules_[0]->parameters();
    std::vector<at::Tensor> tensors;
    for (const auto& one : modules_) {
      const auto some = one->parameters();
      tensors.insert(tensors.end(), some.begin(), some.end());
    }
    return tensors;
  }
  bool is_training() const override {
    return std::all_of(modules_.begin(), modules_.end(),
                       [](const auto& one) { return one->is_training(); });
  }
  std::vector<at::Tensor> sparse_parameters() const override {
    std::vector<at::Tensor> weights;
    for (const auto& root : modules_) {
      for (const auto& one : root->modules()) {
        append_sparse<torch::nn::EmbeddingImpl>(weights, *one);
        append_sparse<torch::nn::EmbeddingBagImpl>(weights, *one);
      }
    }
    return weights;
  }
  std::vector<at::Tensor> normalising_parameters() const override {
    std::vector<at::Tensor> parameters;
    for (const auto& root : modules_) {
      for (const auto& one : root->modules()) {
        append_normalising<torch::nn::BatchNorm1dImpl>(parameters, *one);
        append_normalising<torch::nn::BatchNorm2dImpl>(parameters, *one);
        append_normalising<torch::nn::BatchNorm3dImpl>(parameters, *one);
      }
    }
    return parameters;
  }
  bool has_sync_batch_norm() const override {
    for (const auto& root : modules_) {
      for (const auto& one : root->modules()) {
        if (one->name().find("SyncBatchNorm") != std::string::npos) return true;
      }
    }
    return false;
  }

 private:
  std::string prefix(size_t index) const {
    return numbered_ ? fmt::format("{}.", index) : "";
  }

  const Modules modules_;
  const bool numbered_;
};

}  // namespace

std::vector<at::Tensor> WrappedModel::parameter_tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters()) tensors.push_back(tensor);
  return tensors;
}

std::shared_ptr<WrappedModel> wrapped(
    std::shared_ptr<torch::nn::Module> module) {
  if (!module) return nullptr;
  return std::make_shared<WrappedModules>(
      WrappedModules::Modules{std::move(module)}, false);
}

std::shared_ptr<WrappedModel> wrapped(
    std::vector<std::shared_ptr<torch::nn::Module>> modules) {
  LOCKSTEP_CHECK(!modules.empty(), UsageError, "there are no modules to wrap");
  for (const auto& one : modules) {
    LOCKSTEP_CHECK(one != nullptr, UsageError, "one of the modules is null");
  }
  return std::make_shared<WrappedModules>(std::move(modules), true);
}

}  // namespace lockstep

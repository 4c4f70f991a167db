// SPDX-License-Identifier: Apache-2.0
#include "parity/zoo.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "lockstep/base/error.h"

namespace lockstep::testing {
namespace {

at::Tensor random_values(uint64_t seed, at::IntArrayRef sizes,
                         at::ScalarType dtype) {
  // Not the global generator: ranks that are threads would share it.
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

uint64_t seed_of(int step, int shard) {
  return 1000 + 100 * static_cast<uint64_t>(step) +
         static_cast<uint64_t>(shard);
}

}  // namespace

void Model::backward(const at::Tensor& loss) { loss.backward(); }

at::Tensor Model::parameter(const std::string& name, at::IntArrayRef sizes) {
  return parameter(name, sizes, dtype_);
}

at::Tensor Model::parameter(const std::string& name, at::IntArrayRef sizes,
                            at::ScalarType dtype) {
  adopt_parameter(name, at::zeros(sizes, dtype).requires_grad_());
  return parameters_.back();
}

at::Tensor Model::sparse_parameter(const std::string& name,
                                   at::IntArrayRef sizes) {
  adopt_parameter(name, at::zeros(sizes, dtype_).requires_grad_(), true);
  return parameters_.back();
}

void Model::adopt_parameter(const std::string& name, const at::Tensor& tensor,
                            bool sparse) {
  const at::NoGradGuard no_grad;
  const uint64_t seed = seed_ * 1000 + parameters_.size();
  tensor.copy_(0.3 * random_values(seed, tensor.sizes(), tensor.scalar_type()));
  parameters_.push_back(tensor);
  names_.push_back(name);
  sparse_.push_back(sparse);
}

at::Tensor Model::data(int step, int shard, at::IntArrayRef sizes) const {
  return random_values(seed_of(step, shard), sizes, dtype_);
}

at::Tensor Model::indices(int step, int shard, int64_t limit, int64_t count) {
  const auto generator =
      at::make_generator<at::CPUGeneratorImpl>(seed_of(step, shard));
  return at::randint(limit, {count}, generator, at::TensorOptions(at::kLong));
}

bool ModelKind::works_with(Graph graph) const {
  switch (graph) {
    case Graph::kPlain:
      return plain;
    case Graph::kSearch:
      return search;
    case Graph::kStatic:
    case Graph::kStaticAndSearch:
      return static_graph;
  }
  return false;
}

const std::vector<ModelKind>& zoo() {
  static const auto* const kinds = [] {
    auto* const all = new std::vector<ModelKind>;
    for (const auto& part :
         {module_models(), plain_models(), nested_models()}) {
      all->insert(all->end(), part.begin(), part.end());
    }
    return all;
  }();
  return *kinds;
}

const ModelKind& model_kind(const std::string& name) {
  for (const ModelKind& kind : zoo()) {
    if (kind.name == name) return kind;
  }
  throw UsageError("there is no model '" + name + "' in the zoo");
}

}  // namespace lockstep::testing

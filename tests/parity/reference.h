// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "parity/agreement.h"
#include "parity/zoo.h"

namespace lockstep::testing {

using Tensors = std::vector<at::Tensor>;

// ---- A training loop without an optimizer.

// How gradients of the last step are put away before the next.
enum class Reset { kZero, kUndefine };

void reset_gradients(const Tensors& parameters, Reset how);
// Each parameter less a small part of its gradient, if it has one.
void descend(const Tensors& parameters);

// ---- To compare with.

// Copies of the gradients, dense; undefined where there is none.
Tensors gradients_of(const Tensors& parameters);
Tensors copies_of(const Tensors& tensors);

// What is wrong with `actual`, or "" when each of them is there and near:
// to 1e-10 of the largest element, with floats among them to 1e-5.
std::string difference(const Tensors& actual, const Tensors& expected,
                       const std::vector<std::string>& names);

// Data-parallel training in one process, the dull way: a model per shard (each
// with buffers of its own) runs one after the other; then each gets the average
// of all gradients, summed in the order of shards. A gradient that no shard has
// stays undefined.
class Reference {
 public:
  Reference(const ModelKind& kind, uint64_t seed, at::ScalarType dtype,
            int shards);

  // Calls `pass`, which runs forward and backward, on each shard's model.
  void run(const std::function<void(Model& model, int shard)>& pass);
  void reset(Reset how);
  void descend();
  // All shards get the buffers of the first.
  void share_buffers();

  Tensors gradients() const { return gradients_of(models_[0]->parameters()); }
  Tensors weights() const { return copies_of(models_[0]->parameters()); }
  Tensors buffers(int shard) const {
    return copies_of(models_[static_cast<size_t>(shard)]->buffers());
  }
  const std::vector<std::string>& names() const { return models_[0]->names(); }

 private:
  void average();

  std::vector<std::unique_ptr<Model>> models_;
};

}  // namespace lockstep::testing

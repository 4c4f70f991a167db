// SPDX-License-Identifier: Apache-2.0
#include "parity/expected.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace lockstep::testing {
namespace {

std::vector<Expected> expected_steps(const ModelKind& model, int size,
                                     Reset reset, at::ScalarType dtype,
                                     bool shared_buffers) {
  Reference reference(model, kSeed, dtype, size);
  std::vector<Expected> steps;
  for (int step = 0; step < kSteps; ++step) {
    reference.reset(reset);
    if (shared_buffers) reference.share_buffers();
    reference.run(
        [&](Model& one, int shard) { one.backward(one.loss(step, shard)); });
    Expected expected;
    expected.gradients = reference.gradients();
    reference.descend();
    expected.weights = reference.weights();
    for (int shard = 0; shard < size; ++shard) {
      expected.buffers.push_back(reference.buffers(shard));
    }
    steps.push_back(std::move(expected));
  }
  return steps;
}

}  // namespace

const std::vector<Expected>& References::of(const ModelKind& model, int size,
                                            Reset reset, at::ScalarType dtype,
                                            bool shared_buffers) {
  const auto key =
      std::make_tuple(model.name, size, reset, dtype, shared_buffers);
  const auto at = known_.find(key);
  if (at != known_.end()) return at->second;
  return known_[key] =
             expected_steps(model, size, reset, dtype, shared_buffers);
}

std::string wrong_layout(const Model& model) {
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const at::Tensor& parameter = model.parameters()[i];
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.is_sparse()) continue;
    if (gradient.suggest_memory_format() != parameter.suggest_memory_format()) {
      return model.names()[i] + " has another memory format";
    }
  }
  return "";
}

void Problem::note(int step, const char* what, const std::string& text) {
  if (text_.empty() && !text.empty()) {
    text_ = fmt::format("step {}: {}: {}", step, what, text);
  }
}

void Problem::compare(int step, ProcessGroup& group, Model& model,
                      const Expected& expected) {
  const Tensors& parameters = model.parameters();
  Tensors results = gradients_of(parameters);
  note(step, "gradients",
       difference(results, expected.gradients, model.names()));
  descend(parameters);
  note(step, "weights",
       difference(parameters, expected.weights, model.names()));
  const auto rank = static_cast<size_t>(group.rank());
  note(step, "buffers",
       difference(model.buffers(), expected.buffers[rank], {}));
  results.insert(results.end(), parameters.begin(), parameters.end());
  note(step, "ranks", all_agree(group, results) ? "" : "they differ");
}

}  // namespace lockstep::testing

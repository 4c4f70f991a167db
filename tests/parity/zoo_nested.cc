// SPDX-License-Identifier: Apache-2.0
// Models in whose backward there is another backward.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "parity/zoo.h"

namespace lockstep::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// A tensor that autograd does not see among the inputs of a function.
struct Hidden {
  at::Tensor tensor;
};

// Leaves its input as it is. Its backward trains `weight` on the gradient that
// passes by.
struct TrainOnGradient : torch::autograd::Function<TrainOnGradient> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const Hidden& weight) {
    context->saved_data["weight"] = weight.tensor;
    return x.clone();
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const at::AutoGradMode grad_mode(true);
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    const at::Tensor passing = gradients[0].detach();
    at::matmul(passing, weight).square().sum().backward();
    return {passing, Variable()};
  }
};

// tanh(x weight), computed a second time when its gradient is asked for instead
// of kept.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static Variable forward(AutogradContext* context, const Variable& x,
                          const Hidden& weight) {
    context->save_for_backward({x});
    context->saved_data["weight"] = weight.tensor;
    return at::tanh(at::matmul(x, weight.tensor));
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const at::AutoGradMode grad_mode(true);
    const at::Tensor x =
        context->get_saved_variables()[0].detach().requires_grad_();
    const at::Tensor weight = context->saved_data["weight"].toTensor();
    at::tanh(at::matmul(x, weight)).backward(gradients[0]);
    return {x.grad(), Variable()};
  }
};

class NestedBackward : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = at::matmul(data(step, shard, {4, 6}), in_);
    const at::Tensor y = TrainOnGradient::apply(at::tanh(x), Hidden{inner_});
    return at::matmul(y, out_).square().sum();
  }

 private:
  at::Tensor in_ = parameter("in", {6, 12});
  at::Tensor inner_ = parameter("inner", {12, 4});
  at::Tensor out_ = parameter("out", {12, 3});
};

// Two segments; with `reuse`, both have the same weight.
class CheckpointModel : public Model {
 public:
  at::Tensor loss(int step, int shard) override {
    at::Tensor x = at::matmul(data(step, shard, {4, 6}), in_);
    x = Checkpoint::apply(x, Hidden{first_});
    x = Checkpoint::apply(x, Hidden{second_});
    return at::matmul(x, out_).square().mean();
  }

 protected:
  CheckpointModel(uint64_t seed, at::ScalarType dtype, bool reuse)
      : Model(seed, dtype),
        in_(parameter("in", {6, 10})),
        first_(parameter("first", {10, 10})),
        second_(reuse ? first_ : parameter("second", {10, 10})),
        out_(parameter("out", {10, 3})) {}

 private:
  const at::Tensor in_;
  const at::Tensor first_;
  const at::Tensor second_;
  const at::Tensor out_;
};

class Checkpoints : public CheckpointModel {
 public:
  Checkpoints(uint64_t seed, at::ScalarType dtype)
      : CheckpointModel(seed, dtype, false) {}
};

class ReusedCheckpoints : public CheckpointModel {
 public:
  ReusedCheckpoints(uint64_t seed, at::ScalarType dtype)
      : CheckpointModel(seed, dtype, true) {}
};

}  // namespace

std::vector<ModelKind> nested_models() {
  std::vector<ModelKind> kinds = {
      {"NestedBackward", maker<NestedBackward>()},
      {"Checkpoints", maker<Checkpoints>()},
      {"ReusedCheckpoints", maker<ReusedCheckpoints>()}};
  for (ModelKind& kind : kinds) {
    // A search of the outer graph does not see what the inner ones use.
    kind.search = false;
    // A gradient that comes twice is one too many, unless the first step has
    // shown that it does.
    if (kind.name == "ReusedCheckpoints") kind.plain = false;
  }
  return kinds;
}

}  // namespace lockstep::testing

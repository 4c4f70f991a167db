// SPDX-License-Identifier: Apache-2.0
// Models made of plain operations: kinds of parameters, and parameters that are
// used twice, sometimes or never.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "parity/zoo.h"

namespace lockstep::testing {
namespace {

// Sparse gradients beside dense ones.
class SparseEmbedding : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    // Ranks have different numbers of rows, and some rows twice.
    const at::Tensor rows = indices(step, shard, 10, 4 + shard);
    const at::Tensor found =
        at::embedding(table_, rows, -1, false, /*sparse=*/true);
    return at::tanh(at::matmul(found, head_) + bias_).square().mean();
  }

 private:
  at::Tensor head_ = parameter("head", {3, 20});
  at::Tensor table_ = sparse_parameter("table", {10, 3});
  at::Tensor bias_ = parameter("bias", {20});
};

class MixedTypes : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {4, 5});
    const at::Tensor y = at::tanh(at::matmul(x.to(at::kFloat), first_));
    const at::Tensor z = at::tanh(at::matmul(y.to(at::kDouble), second_));
    const at::Tensor w = at::matmul(z.to(at::kFloat), third_);
    return (w.to(at::kDouble) + bias_).square().mean();
  }

 private:
  at::Tensor first_ = parameter("first", {5, 20}, at::kFloat);
  at::Tensor second_ = parameter("second", {20, 6}, at::kDouble);
  at::Tensor third_ = parameter("third", {6, 2}, at::kFloat);
  at::Tensor bias_ = parameter("bias", {2}, at::kDouble);
};

// One weight goes in and, turned around, out.
class TiedWeights : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {4, 9});
    const at::Tensor hidden = at::tanh(at::matmul(x, tied_));
    return (at::matmul(hidden, tied_.t()) + bias_ - x).square().mean();
  }

 private:
  at::Tensor tied_ = parameter("tied", {9, 12});
  at::Tensor bias_ = parameter("bias", {9});
};

class UnusedBranch : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {4, 8});
    return at::matmul(at::tanh(at::matmul(x, in_)), out_).square().mean();
  }

 private:
  at::Tensor in_ = parameter("in", {8, 12});
  at::Tensor never_ = parameter("never", {12, 12});
  at::Tensor no_rows_ = sparse_parameter("no_rows", {7, 3});
  at::Tensor out_ = parameter("out", {12, 2});
};

// A trunk and two heads: which of them is used depends on step and shard. In
// every fourth step all shards take the same one.
class Branches : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = at::tanh(at::matmul(data(step, shard, {4, 6}), in_));
    const bool right = step % 4 == 3 || (step + shard) % 2 == 1;
    if (!right) return at::matmul(x, left_).square().mean();
    const at::Tensor rows = indices(step, shard, 10, 4);
    const at::Tensor found =
        at::embedding(table_, rows, -1, false, /*sparse=*/true);
    return (at::matmul(x, right_) + found).square().mean();
  }

 private:
  at::Tensor in_ = parameter("in", {6, 12});
  at::Tensor left_ = parameter("left", {12, 8});
  at::Tensor table_ = sparse_parameter("table", {10, 5});
  at::Tensor right_ = parameter("right", {12, 5});
};

// Two models that have nothing in common.
class Towers : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = data(step, shard, {4, 6});
    const bool right = (step + shard) % 2 == 1;
    const at::Tensor hidden =
        at::tanh(at::matmul(x, right ? right_in_ : left_in_));
    return at::matmul(hidden, right ? right_out_ : left_out_).square().mean();
  }

 private:
  at::Tensor left_in_ = parameter("left_in", {6, 12});
  at::Tensor right_in_ = parameter("right_in", {6, 9});
  at::Tensor left_out_ = parameter("left_out", {12, 2});
  at::Tensor right_out_ = parameter("right_out", {9, 2});
};

// The slope by the hidden values counts in the loss, and gradients have a
// history. (The slope by the input would leak: a leaf whose gradient with a
// history nobody resets.)
class GradientPenalty : public Model {
 public:
  using Model::Model;

  at::Tensor loss(int step, int shard) override {
    const at::Tensor x = at::matmul(data(step, shard, {4, 6}), in_);
    const at::Tensor y = at::matmul(at::tanh(x), out_).square().mean();
    const at::Tensor slope =
        torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    return y + slope.square().sum();
  }

  void backward(const at::Tensor& loss) override {
    loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  }

 private:
  at::Tensor in_ = parameter("in", {6, 14});
  at::Tensor out_ = parameter("out", {14, 3});
};

}  // namespace

std::vector<ModelKind> plain_models() {
  std::vector<ModelKind> kinds = {{"SparseEmbedding", maker<SparseEmbedding>()},
                                  {"MixedTypes", maker<MixedTypes>()},
                                  {"TiedWeights", maker<TiedWeights>()},
                                  {"GradientPenalty", maker<GradientPenalty>()},
                                  {"UnusedBranch", maker<UnusedBranch>()},
                                  {"Branches", maker<Branches>()},
                                  {"Towers", maker<Towers>()}};
  for (ModelKind& kind : kinds) {
    if (kind.name == "MixedTypes") kind.mixed = true;
    const bool changes = kind.name == "Branches" || kind.name == "Towers";
    // Without a search, backward would wait for gradients that never come.
    if (kind.name == "UnusedBranch" || changes) kind.plain = false;
    // The graph is another one in every step.
    if (changes) kind.static_graph = false;
  }
  return kinds;
}

}  // namespace lockstep::testing

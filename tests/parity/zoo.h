// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::testing {

// A small model with data of its own: what a Reducer is tried on. Models of one
// kind, seed and type have the same weights; the data of a step depend on the
// step and the shard only.
//
// Threads: one at a time.
class Model {
 public:
  Model(uint64_t seed, at::ScalarType dtype) : seed_(seed), dtype_(dtype) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  virtual at::Tensor loss(int step, int shard) = 0;
  virtual void backward(const at::Tensor& loss);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::vector<std::string>& names() const { return names_; }
  // By parameter: its gradient is sparse.
  const std::vector<bool>& sparse() const { return sparse_; }
  // What forward changes besides.
  const std::vector<at::Tensor>& buffers() const { return buffers_; }

 protected:
  at::ScalarType dtype() const { return dtype_; }

  // A new parameter with random values.
  at::Tensor parameter(const std::string& name, at::IntArrayRef sizes);
  at::Tensor parameter(const std::string& name, at::IntArrayRef sizes,
                       at::ScalarType dtype);
  at::Tensor sparse_parameter(const std::string& name, at::IntArrayRef sizes);
  // The same for one that a module has made; its values are replaced.
  void adopt_parameter(const std::string& name, const at::Tensor& tensor,
                       bool sparse = false);
  void adopt_buffer(const at::Tensor& tensor) { buffers_.push_back(tensor); }

  // Random numbers for a step, and random indices below `limit`.
  at::Tensor data(int step, int shard, at::IntArrayRef sizes) const;
  static at::Tensor indices(int step, int shard, int64_t limit, int64_t count);

 private:
  const uint64_t seed_;
  const at::ScalarType dtype_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<bool> sparse_;
  std::vector<at::Tensor> buffers_;
};

// How a Reducer learns which gradients to wait for.
enum class Graph { kPlain, kSearch, kStatic, kStaticAndSearch };
constexpr int kGraphCount = 4;

struct ModelKind {
  using Make = std::function<std::unique_ptr<Model>(uint64_t seed,
                                                    at::ScalarType dtype)>;
  std::string name;
  Make make;
  // The settings with which it can be trained. A search wins nothing where the
  // graph is static, and must not harm either.
  bool plain = true;
  bool search = true;
  bool static_graph = true;
  // It has parameters of several types, whatever type it is made with.
  bool mixed = false;

  bool works_with(Graph graph) const;
};

inline void PrintTo(const ModelKind& kind, std::ostream* out) {
  *out << kind.name;
}

const std::vector<ModelKind>& zoo();
const ModelKind& model_kind(const std::string& name);

// The parts of the zoo, by file: models made of modules, of plain operations,
// and those whose backward is out of the ordinary.
std::vector<ModelKind> module_models();
std::vector<ModelKind> plain_models();
std::vector<ModelKind> nested_models();

// A ModelKind::Make for a class with the usual constructor.
template <class M>
ModelKind::Make maker() {
  return [](uint64_t seed, at::ScalarType dtype) {
    return std::make_unique<M>(seed, dtype);
  };
}

}  // namespace lockstep::testing

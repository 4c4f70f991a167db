// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "parity/reference.h"
#include "parity/zoo.h"

namespace lockstep::testing {

constexpr uint64_t kSeed = 7;
constexpr int kSteps = 4;

// What there should be after each step.
struct Expected {
  Tensors gradients;
  Tensors weights;
  std::vector<Tensors> buffers;  // by shard
};

// Computes it by the dull reference; settings that differ only in what that
// does not know share it.
class References {
 public:
  // With `shared_buffers`, those of the first shard go to all before a step.
  const std::vector<Expected>& of(const ModelKind& model, int size, Reset reset,
                                  at::ScalarType dtype,
                                  bool shared_buffers = false);

 private:
  std::map<std::tuple<std::string, int, Reset, at::ScalarType, bool>,
           std::vector<Expected>>
      known_;
};

// Gradients lie in memory as their parameters do; or what is wrong.
std::string wrong_layout(const Model& model);

// Keeps the first problem; later ones follow from it.
class Problem {
 public:
  void note(int step, const char* what, const std::string& text);
  // After a backward, on every rank: goes down the gradients, and compares
  // them, weights and buffers with what there should be, and with the other
  // ranks.
  void compare(int step, ProcessGroup& group, Model& model,
               const Expected& expected);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace lockstep::testing

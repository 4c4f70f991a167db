// SPDX-License-Identifier: Apache-2.0
#include "parity/reference.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

namespace lockstep::testing {
namespace {

constexpr double kRate = 0.05;

double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>();
}

// Sums that are zero but for rounding have no digits to compare.
constexpr double kSmallestScale = 1e-2;

// A model with some floats is as exact as these, everywhere.
double part_of(const Tensors& tensors) {
  const bool has_floats =
      std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& one) {
        return one.defined() && one.scalar_type() == at::kFloat;
      });
  return has_floats ? 1e-5 : 1e-10;
}

bool is_near(const at::Tensor& actual, const at::Tensor& expected,
             double part) {
  const at::NoGradGuard no_grad;
  const double scale = std::max(largest(expected), kSmallestScale);
  return largest(actual - expected) <= part * scale;
}

}  // namespace

void reset_gradients(const Tensors& parameters, Reset how) {
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (how == Reset::kUndefine) {
      gradient.reset();
    } else {
      gradient.detach_();  // it has a history when its backward made a graph
      gradient.zero_();
    }
  }
}

void descend(const Tensors& parameters) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    parameter.add_(parameter.grad(), -kRate);
  }
}

Tensors gradients_of(const Tensors& parameters) {
  Tensors gradients;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) {
      gradients.emplace_back();
    } else if (gradient.is_sparse()) {
      gradients.push_back(gradient.detach().to_dense());
    } else {
      gradients.push_back(gradient.detach().clone());
    }
  }
  return gradients;
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.detach().clone());
  }
  return copies;
}

std::string difference(const Tensors& actual, const Tensors& expected,
                       const std::vector<std::string>& names) {
  if (actual.size() != expected.size()) return "another number of tensors";
  const double part = part_of(expected);
  for (size_t i = 0; i < actual.size(); ++i) {
    const std::string name = i < names.size() ? names[i] : std::to_string(i);
    if (actual[i].defined() != expected[i].defined()) {
      return fmt::format("{} is {}, but should {}be", name,
                         actual[i].defined() ? "there" : "not there",
                         actual[i].defined() ? "not " : "");
    }
    if (!actual[i].defined()) continue;
    if (actual[i].scalar_type() != expected[i].scalar_type()) {
      return fmt::format("{} has another type", name);
    }
    if (!is_near(actual[i], expected[i], part)) {
      return fmt::format("{} is off by {}, its largest element is {}", name,
                         largest(actual[i] - expected[i]),
                         largest(expected[i]));
    }
  }
  return "";
}

Reference::Reference(const ModelKind& kind, uint64_t seed, at::ScalarType dtype,
                     int shards) {
  use_one_thread();
  for (int i = 0; i < shards; ++i) models_.push_back(kind.make(seed, dtype));
}

void Reference::run(const std::function<void(Model& model, int shard)>& pass) {
  for (size_t i = 0; i < models_.size(); ++i) {
    pass(*models_[i], static_cast<int>(i));
  }
  average();
}

void Reference::average() {
  for (size_t p = 0; p < models_[0]->parameters().size(); ++p) {
    at::Tensor sum;
    for (const auto& model : models_) {
      const at::Tensor one = gradients_of({model->parameters()[p]})[0];
      if (one.defined()) sum = sum.defined() ? sum + one : one;
    }
    if (!sum.defined()) continue;
    const at::Tensor average = sum / static_cast<double>(models_.size());
    for (const auto& model : models_) {
      model->parameters()[p].mutable_grad() = average.clone();
    }
  }
}

void Reference::reset(Reset how) {
  for (const auto& model : models_) {
    reset_gradients(model->parameters(), how);
  }
}

void Reference::share_buffers() {
  const at::NoGradGuard no_grad;
  for (const auto& model : models_) {
    for (size_t i = 0; i < model->buffers().size(); ++i) {
      model->buffers()[i].copy_(models_[0]->buffers()[i]);
    }
  }
}

void Reference::descend() {
  for (const auto& model : models_) {
    testing::descend(model->parameters());
  }
}

}  // namespace lockstep::testing

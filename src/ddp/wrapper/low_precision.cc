// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/low_precision.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "lockstep/tensor/convert.h"

namespace lockstep::detail {
namespace {

// As at::Tensor::set_data(), which for another type would also drop the node
// that accumulates the gradient, and our hooks with it.
void set_data_of(const at::Tensor& tensor, const at::Tensor& data) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
}

}  // namespace

LowPrecision::LowPrecision(std::vector<at::Tensor> parameters,
                           at::ScalarType type)
    : parameters_(std::move(parameters)),
      type_(type),
      own_type_(parameters_.empty() ? at::kFloat
                                    : parameters_[0].scalar_type()) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& one : parameters_) {
    copies_.push_back(
        at::empty_like(one.variable_data(), one.options().dtype(type)));
  }
}

void LowPrecision::begin_forward() {
  raise();  // should the last forward or backward have thrown
  for (size_t i = 0; i < parameters_.size(); ++i) {
    convert_into(copies_[i], parameters_[i].variable_data());
  }
  lower();
}

void LowPrecision::end_forward(const std::vector<at::Tensor*>& outputs) {
  raise();
  std::vector<at::Tensor> watched;
  for (at::Tensor* output : outputs) {
    if (!output->defined()) continue;
    const bool is_low = output->scalar_type() == type_;
    const bool is_watched = output->requires_grad() && output->grad_fn();
    // A node of our own is the first that backward comes to, before any that
    // uses a parameter.
    if (is_low) {
      *output = output->to(own_type_);
    } else if (is_watched) {
      *output = output->clone();
    }
    if (is_watched) watched.push_back(*output);
  }
  watch_outputs(watched, 0, weak_from_this());
}

bool LowPrecision::is_low() {
  const std::lock_guard lock(mutex_);
  return !own_.empty();
}

void LowPrecision::lower() {
  const std::lock_guard lock(mutex_);
  if (!own_.empty()) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    own_.push_back(parameters_[i].variable_data());
    set_data_of(parameters_[i], copies_[i]);
  }
}

void LowPrecision::raise() {
  const std::lock_guard lock(mutex_);
  tasks_.clear();
  for (size_t i = 0; i < own_.size(); ++i) {
    set_data_of(parameters_[i], own_[i]);
  }
  own_.clear();
}

// Backward has come to the outputs of a forward: until its end the parameters
// are what they were in forward.
void LowPrecision::on_output(uint64_t /*graph*/) {
  const EngineTask task = EngineTask::current();
  lower();
  {
    const std::lock_guard lock(mutex_);
    const bool is_known =
        std::find(tasks_.begin(), tasks_.end(), task) != tasks_.end();
    if (is_known) return;
    tasks_.push_back(task);
  }
  EngineTask::at_end([weak = weak_from_this(), task] {
    if (const auto self = weak.lock()) self->end_task(task);
  });
}

void LowPrecision::end_task(const EngineTask& task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.erase(std::remove(tasks_.begin(), tasks_.end(), task), tasks_.end());
    if (!tasks_.empty()) return;  // a backward around this one
  }
  raise();
}

}  // namespace lockstep::detail

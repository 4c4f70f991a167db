// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/delayed_gradients.h"

#include <map>

namespace lockstep::detail {
namespace {

// A bucket for each type.
BucketPlan plan_of(const std::vector<at::Tensor>& parameters) {
  std::map<at::ScalarType, std::vector<size_t>> by_type;
  for (size_t i = 0; i < parameters.size(); ++i) {
    by_type[parameters[i].scalar_type()].push_back(i);
  }
  BucketPlan plan;
  for (auto& [type, items] : by_type) {
    plan.buckets.push_back({std::move(items)});
  }
  return plan;
}

}  // namespace

std::shared_ptr<DelayedGradients> DelayedGradients::make(
    const ModelParts& parts, const std::string& trigger,
    const std::shared_ptr<ProcessGroup>& group, ReducerOptions options) {
  const std::shared_ptr<DelayedGradients> self(new DelayedGradients);
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> triggers;
  options.names.clear();
  options.expect_sparse.clear();
  for (const auto& one : parts.parameters) {
    if (one.name == trigger) triggers.push_back(one.tensor);
    if (!one.is_delayed) continue;
    parameters.push_back(one.tensor);
    options.names.push_back(one.name);
  }
  options.bucket_plan = plan_of(parameters);
  options.gradient_as_bucket_view = true;
  self->reducer_ =
      std::make_unique<Reducer>(std::move(parameters), group, options);
  self->trigger_.emplace(triggers, std::vector<std::string>{trigger}, self);
  self->set_hook();
  self->reducer_->on_backward_end([weak = self->weak_from_this()] {
    if (const auto alive = weak.lock()) alive->end_backward();
  });
  return self;
}

void DelayedGradients::set_hook() {
  {
    const std::lock_guard lock(mutex_);
    triggered_ = false;
    gates_.clear();
  }
  // It owns the Reducer, who must not own it.
  const auto weak = weak_from_this();
  reducer_->register_comm_hook(
      [weak](const GradBucket& bucket) {
        const auto self = weak.lock();
        return self ? self->take(bucket) : Future<at::Tensor>();
      },
      "delayed");
}

// Buckets come in the same order on all ranks, and leave in it.
Future<at::Tensor> DelayedGradients::take(const GradBucket& bucket) {
  const auto gate = std::make_shared<Promise<void>>();
  const Future<at::Tensor> result =
      gate->future().then([&reducer = *reducer_, bucket] {
        return reducer.run_all_reduce_hook(bucket);
      });
  bool is_open = false;
  {
    const std::lock_guard lock(mutex_);
    gates_.push_back(gate);
    is_open = triggered_;
  }
  if (is_open) open_gates();
  return result;
}

void DelayedGradients::end_backward() {
  open_gates();
  const std::lock_guard lock(mutex_);
  triggered_ = false;
}

void DelayedGradients::on_gradient(size_t /*index*/) {
  {
    const std::lock_guard lock(mutex_);
    triggered_ = true;
  }
  open_gates();
}

void DelayedGradients::open_gates() {
  std::vector<std::shared_ptr<Promise<void>>> gates;
  {
    const std::lock_guard lock(mutex_);
    gates.swap(gates_);
  }
  for (const auto& gate : gates) gate->set_value();
}

}  // namespace lockstep::detail

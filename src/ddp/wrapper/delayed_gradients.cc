// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/delayed_gradients.h"

#include <utility>
#include <vector>

#include "ddp/reducer/check_parameters.h"
#include "ddp/reducer/plan_by_tensor.h"

namespace lockstep::detail {

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
  options.bucket_plan.reset();  // that of the other parameters
  options.bucket_plan =
      plan_by_tensor({parameters}, make_parameter_set(parameters, options));
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
  take_gate(false);
  // Weakly, because this owns the Reducer that owns the hook.
  const auto weak = weak_from_this();
  reducer_->register_comm_hook(
      [weak](const GradBucket& bucket, const HookContext& context) {
        const auto self = weak.lock();
        return self ? self->reduce(bucket, context) : Future<at::Tensor>();
      },
      "delayed");
}

// Bucket 0 comes first, so the other buckets are queued behind its wait.
Future<at::Tensor> DelayedGradients::reduce(const GradBucket& bucket,
                                            const HookContext& context) {
  if (bucket.index() == 0) {
    StepOptions wait;
    wait.after = triggered();
    wait.fatal = true;
    // The wait ends with this rank's own backward, which has no time limit.
    wait.timeout = Deadline::Duration::max();
    context.group()->post([] {}, wait);
  }
  return hooks::all_reduce()(bucket, context);
}

Future<void> DelayedGradients::triggered() {
  const std::lock_guard lock(mutex_);
  if (is_triggered_) return ready_future();
  gate_ = std::make_unique<Promise<void>>();
  return gate_->future();
}

void DelayedGradients::on_gradient(size_t /*index*/) {
  if (const Gate gate = take_gate(true)) gate->set_value();
}

void DelayedGradients::end_backward() {
  if (const Gate gate = take_gate(false)) gate->set_value();
}

DelayedGradients::Gate DelayedGradients::take_gate(bool is_triggered) {
  const std::lock_guard lock(mutex_);
  is_triggered_ = is_triggered;
  return std::move(gate_);
}

}  // namespace lockstep::detail

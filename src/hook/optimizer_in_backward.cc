// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/optimizer_in_backward.h"

#include <map>
#include <utility>

#include <fmt/format.h>
#include <torch/optim/optimizer.h>

#include "lockstep/base/error.h"

namespace lockstep::hooks {

// One for each parameter.
class OptimizerInBackward::Optimizers {
 public:
  using Optimizer = torch::optim::Optimizer;

  explicit Optimizers(Make make) : make_(std::move(make)) {}

  // Makes what is missing for the bucket: at hook time, so that what `make`
  // throws comes before anything is launched.
  std::vector<Optimizer*> of(const GradBucket& bucket) {
    std::vector<Optimizer*> all;
    for (size_t i = 0; i < bucket.members().size(); ++i) {
      auto& optimizer = by_parameter_[bucket.members()[i].index];
      if (!optimizer) optimizer = make_({bucket.parameters()[i]});
      LOCKSTEP_CHECK(optimizer != nullptr, UsageError,
                     "the function that makes optimizers returned null for "
                     "parameter {}",
                     bucket.members()[i].index);
      all.push_back(optimizer.get());
    }
    return all;
  }

  const auto& by_parameter() const { return by_parameter_; }

 private:
  const Make make_;
  std::map<size_t, std::unique_ptr<Optimizer>> by_parameter_;
};

namespace {

void step(const GradBucket& bucket, const at::Tensor& result,
          const std::vector<torch::optim::Optimizer*>& optimizers) {
  const std::vector<at::Tensor> gradients = bucket.gradients_of(result);
  for (size_t i = 0; i < optimizers.size(); ++i) {
    if (!bucket.is_used(i)) continue;
    at::Tensor& gradient = bucket.parameters()[i].mutable_grad();
    gradient = gradients[i];
    optimizers[i]->step();
    gradient.reset();
  }
}

}  // namespace

OptimizerInBackward::OptimizerInBackward(Make make) {
  LOCKSTEP_CHECK(make, UsageError,
                 "OptimizerInBackward needs a function that makes an optimizer "
                 "for the parameters it is given");
  optimizers_ = std::make_shared<Optimizers>(std::move(make));
}

CommHook OptimizerInBackward::hook(CommHook inner) const {
  LOCKSTEP_CHECK(inner, UsageError, "the inner hook is empty");
  const std::string name =
      fmt::format("optimizer_in_backward({})", inner.name());
  auto call = [all = optimizers_, inner = std::move(inner)](
                  const GradBucket& bucket, const HookContext& context) {
    const auto optimizers = all->of(bucket);
    const Future<at::Tensor> reduced = inner(bucket, context);
    StepOptions options;
    options.after = reduced.done();
    options.fatal = true;
    const auto work = context.group()->post(
        [all, bucket, reduced, optimizers] {
          step(bucket, reduced.get(Deadline::in({})), optimizers);
        },
        options);
    return work->future().then([buffer = bucket.buffer()] { return buffer; });
  };
  return CommHook(std::move(call)).named(name).updating_parameters();
}

void OptimizerInBackward::for_each(const Change& change) const {
  for (const auto& [parameter, optimizer] : optimizers_->by_parameter()) {
    change(parameter, *optimizer);
  }
}

}  // namespace lockstep::hooks

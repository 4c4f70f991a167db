// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/grad_hooks.h"

#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "ddp/reducer/engine_task.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

using torch::autograd::FunctionPostHook;
using torch::autograd::Node;
using torch::autograd::variable_list;

// Calls `tell` with the listener while there is one, and changes nothing.
template <class Tell>
class TellingHook : public FunctionPostHook {
 public:
  TellingHook(std::weak_ptr<BackwardListener> listener, Tell tell)
      : listener_(std::move(listener)), tell_(std::move(tell)) {}

  variable_list operator()(const variable_list& outputs,
                           const variable_list& /*inputs*/) override {
    if (const auto listener = listener_.lock()) tell_(*listener);
    return outputs;
  }

 private:
  const std::weak_ptr<BackwardListener> listener_;
  const Tell tell_;
};

template <class Tell>
std::unique_ptr<FunctionPostHook> make_hook(
    const std::weak_ptr<BackwardListener>& listener, Tell tell) {
  return std::make_unique<TellingHook<Tell>>(listener, std::move(tell));
}

}  // namespace

GradHooks::GradHooks(const std::vector<at::Tensor>& parameters,
                     const std::vector<std::string>& names,
                     const std::weak_ptr<BackwardListener>& listener) {
  std::unordered_map<const Node*, size_t> seen;
  for (size_t i = 0; i < parameters.size(); ++i) {
    hooks_.push_back(
        {torch::autograd::impl::grad_accumulator(parameters[i]), 0});
    const auto [first, is_new] = seen.emplace(accumulator(i), i);
    LOCKSTEP_CHECK(is_new, UsageError,
                   "parameters {} ('{}') and {} ('{}') are the same tensor; "
                   "give a shared parameter once",
                   first->second, names[first->second], i, names[i]);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    hooks_[i].key = hooks_[i].accumulator->add_post_hook(make_hook(
        listener, [i](BackwardListener& one) { one.on_gradient(i); }));
  }
}

GradHooks::~GradHooks() {
  // Inside of backward autograd may be going through these very hooks, so they
  // stay: they do nothing any more, and are freed with their accumulators.
  if (EngineTask::current()) return;
  for (const Hook& hook : hooks_) {
    if (hook.key != 0) hook.accumulator->del_post_hook(hook.key);
  }
}

bool GradHooks::is_on(size_t index, const at::Tensor& parameter) const {
  return torch::autograd::impl::grad_accumulator(parameter).get() ==
         accumulator(index);
}

std::weak_ptr<const void> watch_outputs(
    const std::vector<at::Tensor>& outputs, uint64_t graph,
    const std::weak_ptr<BackwardListener>& listener) {
  const auto alive = std::make_shared<const uint64_t>(graph);
  std::unordered_set<const Node*> seen;
  const auto watch = [&](const at::TensorBase& tensor) {
    const auto& node = tensor.grad_fn();
    if (!node || !seen.insert(node.get()).second) return;
    node->add_post_hook(make_hook(
        listener, [alive](BackwardListener& one) { one.on_output(*alive); }));
  };
  for (const at::Tensor& output : outputs) {
    if (!output.defined()) continue;
    watch(output);
    // A view that is changed in place gets a new history, which continues the
    // history of its base.
    if (output.is_view()) watch(output._base());
  }
  return alive;
}

}  // namespace lockstep::detail

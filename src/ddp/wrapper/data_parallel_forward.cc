// SPDX-License-Identifier: Apache-2.0
// What happens before and after the module's own forward.
#include "ddp/wrapper/data_parallel_state.h"

#include <algorithm>
#include <atomic>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "ddp/reducer/engine_task.h"
#include "ddp/reducer/reducer_core.h"
#include "ddp/wrapper/replica_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

// Warns of a backward through outputs of eval mode: gradients stay on this
// rank, which a program that means to train so would not notice.
class EvalListener : public detail::BackwardListener {
 public:
  explicit EvalListener(int rank) : rank_(rank) {}
  void on_gradient(size_t /*parameter*/) override {}
  void on_output(uint64_t /*graph*/) override {
    if (detail::EngineTask::current().is_partial()) return;
    if (warned_.exchange(true)) return;
    log_warn(fmt::format(
        "rank {}: backward() of a forward in eval mode: its gradients are not "
        "averaged over the ranks. To train with parts of the module in eval "
        "mode, call train() on the module and eval() on these parts (said "
        "once)",
        rank_));
  }

 private:
  const int rank_;
  std::atomic<bool> warned_{false};
};

bool has_history(const at::Tensor* tensor) {
  return tensor->defined() && tensor->requires_grad() && tensor->grad_fn();
}

}  // namespace

bool DataParallelCore::begin_forward() {
  const bool trains = at::GradMode::is_enabled() &&
                      state_->model->is_training() && !state_->is_removed;
  if (!trains) return false;
  if (state_->low) state_->low->raise();  // should the last step have thrown
  if (!reducer().is_syncing()) {
    if (state_->low) state_->low->begin_forward();
    return false;
  }
  detail::check_unchanged(*state_->model, state_->parts);
  state_->stats->note_step(state_->reducer->core_->report());
  for (const auto& one : cores()) {
    one->check_parameters();
    one->prepare_for_forward();
  }
  state_->stats->begin_iteration(state_->reducer->iterations());
  ++state_->forwards;
  const int every = state_->options.check_replicas_every;
  if (every > 0 && state_->forwards % every == 0) {
    detail::check_replicas(*state_->reducer->group(), state_->parts.parameters,
                           state_->reducer->iterations());
  }
  if (state_->buffer_hook) {
    run_buffer_hook(BufferHookTime::kBeforeForward);
  } else if (state_->options.broadcast_buffers) {
    state_->buffers.before_forward(*state_->reducer->group(),
                                   state_->buffers_now());
  }
  state_->stats->begin_forward();
  if (state_->low) state_->low->begin_forward();
  return true;
}

bool DataParallelCore::is_low() const {
  return state_->low && state_->low->is_low();
}

at::Tensor DataParallelCore::lowered(const at::Tensor& input) const {
  const bool converts =
      is_low() && input.defined() && at::isFloatingType(input.scalar_type());
  return converts ? input.to(state_->low->type()) : input;
}

void DataParallelCore::abandon_forward() {
  if (state_->low) state_->low->raise();
}

void DataParallelCore::end_forward(const std::vector<at::Tensor*>& outputs,
                                   bool synced) {
  if (is_low()) state_->low->end_forward(outputs);
  if (!synced) return watch_eval(outputs);
  state_->stats->end_forward();
  if (state_->buffer_hook) run_buffer_hook(BufferHookTime::kAfterForward);
  prepare(outputs);
}

void DataParallelCore::run_buffer_hook(BufferHookTime when) {
  if (when != state_->buffer_hook_time) return;
  const at::NoGradGuard no_grad;
  state_->reducer->install_futures(
      state_->buffer_hook(*state_->reducer->group(), state_->buffers_now()));
}

// With a search for unused parameters outputs become copies or views, whose
// nodes are the place where backward enters the module, even if the program
// changes the outputs in place.
void DataParallelCore::prepare(const std::vector<at::Tensor*>& outputs) {
  const bool is_static_first =
      state_->options.static_graph && state_->reducer->backwards() == 0;
  const bool sink = state_->options.find_unused_parameters || is_static_first;
  std::vector<at::Tensor> watched;
  for (at::Tensor* output : outputs) {
    if (!has_history(output)) continue;
    if (sink) {
      *output = state_->options.clone_outputs ? output->clone()
                                              : output->view_as(*output);
    }
    watched.push_back(*output);
  }
  // Without such an output there may still be a backward: the module may keep
  // its loss, or return a parameter itself.
  const bool needs_one =
      state_->options.static_graph || state_->options.backwards_per_forward > 1;
  LOCKSTEP_CHECK(!watched.empty() || !needs_one, UsageError,
                 "the module's forward returned no tensor that was computed "
                 "from its parameters; a static graph, and several backwards "
                 "per forward, must know where a backward ends");
  for (const auto& one : cores()) one->prepare_for_backward(watched);
}

void DataParallelCore::watch_eval(const std::vector<at::Tensor*>& outputs) {
  const bool alone = at::GradMode::is_enabled() && !state_->is_removed &&
                     !state_->model->is_training() && state_->group->size() > 1;
  if (!alone) return;
  std::vector<at::Tensor> watched;
  for (const at::Tensor* output : outputs) {
    if (has_history(output)) watched.push_back(*output);
  }
  if (!state_->eval_listener) {
    state_->eval_listener =
        std::make_shared<EvalListener>(state_->group->rank());
  }
  detail::watch_outputs(watched, 0, state_->eval_listener);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What happens before and after the module's own forward.
#include "ddp/data_parallel_impl.h"

#include <algorithm>
#include <atomic>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "ddp/engine_task.h"
#include "ddp/replica_check.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {
namespace {

// A backward through outputs of eval mode leaves gradients on this rank; some
// programs mean to train so, and would never know.
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

using Impl = DataParallelCore::Impl;

bool Impl::begin_forward() {
  const bool trains =
      at::GradMode::is_enabled() && detail::is_training(*module_) && !removed_;
  if (!trains || !reducer().is_syncing()) return false;
  detail::check_unchanged(*module_, parts_);
  stats_->note_step(*reducer_);
  for (Reducer* one : reducers()) {
    one->check_parameters();
    one->prepare_for_forward();
  }
  stats_->begin_iteration(reducer_->iterations());
  ++forwards_;
  const int every = options_.check_replicas_every;
  if (every > 0 && forwards_ % every == 0) {
    detail::check_replicas(*reducer_->group(), parts_.parameters,
                           reducer_->iterations());
  }
  if (buffer_hook_) {
    run_buffer_hook(BufferHookTime::kBeforeForward);
  } else if (options_.broadcast_buffers) {
    buffers_.before_forward(*reducer_->group(),
                            detail::buffers_of(*module_, options_));
  }
  stats_->begin_forward();
  return true;
}

void Impl::end_forward(const std::vector<at::Tensor*>& outputs, bool synced) {
  if (!synced) return watch_eval(outputs);
  stats_->end_forward();
  if (buffer_hook_) run_buffer_hook(BufferHookTime::kAfterForward);
  prepare(outputs);
}

void Impl::run_buffer_hook(BufferHookTime when) {
  if (when != buffer_hook_time_) return;
  const at::NoGradGuard no_grad;
  reducer_->install_futures(
      buffer_hook_(*reducer_->group(), detail::buffers_of(*module_, options_)));
}

// Where a search is made, outputs pass through an identity of our own: it marks
// where backward enters the module even if the program changes them in place.
void Impl::prepare(const std::vector<at::Tensor*>& outputs) {
  const bool is_static_first =
      options_.static_graph && reducer_->backwards() == 0;
  const bool sink = options_.find_unused_parameters || is_static_first;
  std::vector<at::Tensor> watched;
  for (at::Tensor* output : outputs) {
    if (!has_history(output)) continue;
    if (sink) {
      *output =
          options_.clone_outputs ? output->clone() : output->view_as(*output);
    }
    watched.push_back(*output);
  }
  // Without any, the loss may still be found elsewhere: the module may keep it,
  // or return a parameter as it is.
  const bool needs_one =
      options_.static_graph || options_.backwards_per_forward > 1;
  LOCKSTEP_CHECK(!watched.empty() || !needs_one, UsageError,
                 "the module's forward returned no tensor that was computed "
                 "from its parameters; a static graph, and several backwards "
                 "per forward, must know where a backward ends");
  for (Reducer* one : reducers()) one->prepare_for_backward(watched);
}

void Impl::watch_eval(const std::vector<at::Tensor*>& outputs) {
  const bool alone = at::GradMode::is_enabled() && !removed_ &&
                     !detail::is_training(*module_) && group_->size() > 1;
  if (!alone) return;
  std::vector<at::Tensor> watched;
  for (const at::Tensor* output : outputs) {
    if (has_history(output)) watched.push_back(*output);
  }
  if (!eval_listener_) {
    eval_listener_ = std::make_shared<EvalListener>(group_->rank());
  }
  detail::watch_outputs(watched, 0, eval_listener_);
}

}  // namespace lockstep

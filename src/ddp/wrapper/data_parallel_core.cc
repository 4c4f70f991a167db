// SPDX-License-Identifier: Apache-2.0
// The settings and figures of a wrapper.
#include <utility>

#include "ddp/reducer/reducer_core.h"
#include "ddp/wrapper/data_parallel_state.h"
#include "lockstep/base/error.h"

namespace lockstep {

DataParallelCore::NoSync::NoSync(DataParallelCore& core) {
  for (const auto& one : core.cores()) {
    guards_.push_back(std::make_unique<Reducer::NoSync>(one));
  }
}
DataParallelCore::NoSync DataParallelCore::no_sync() { return NoSync(*this); }

void DataParallelCore::register_comm_hook(CommHook hook,
                                          const std::string& name) {
  reducer().register_comm_hook(std::move(hook), name);
}
void DataParallelCore::install_futures(
    const std::vector<Future<void>>& futures) {
  reducer().install_futures(futures);
}
void DataParallelCore::set_optimizer_in_backward(bool on) {
  reducer().set_optimizer_in_backward(on);
}
void DataParallelCore::set_sparse_metadata(
    const std::map<std::string, at::Tensor>& rows) {
  reducer().set_sparse_metadata(rows);
}
const BucketPlan& DataParallelCore::bucket_plan() {
  return reducer().bucket_plan();
}
const DdpOptions& DataParallelCore::options() const { return state_->options; }

void DataParallelCore::set_static_graph() {
  for (const auto& one : cores()) one->set_static_graph();
  state_->options.static_graph = true;
}

void DataParallelCore::register_buffer_hook(BufferHook hook,
                                            BufferHookTime when) {
  LOCKSTEP_CHECK(hook != nullptr, UsageError, "the buffer hook is empty");
  LOCKSTEP_CHECK(!state_->buffer_hook, UsageError,
                 "a buffer hook can be registered once, and one is");
  state_->buffer_hook = std::move(hook);
  state_->buffer_hook_time = when;
}

void DataParallelCore::sync_buffers() {
  state_->buffers.send_all(*reducer().group(), state_->buffers_now());
}

void DataParallelCore::check_finalized() const {
  if (state_->delayed) state_->delayed->reducer().check_finalized();
  if (state_->reducer) state_->reducer->check_finalized();
}

DdpStats DataParallelCore::stats() const {
  DdpStats report = state_->stats->report();
  if (state_->reducer) {
    const detail::StepReport steps = state_->reducer->core_->report();
    state_->stats->note_step(steps);
    report = state_->stats->report(steps, state_->reducer->bucket_plan());
  }
  report.static_graph = state_->options.static_graph;
  const auto delayed =
      state_->delayed ? state_->delayed->reducer().error() : nullptr;
  if (delayed && !report.has_error) {
    report.has_error = true;
    report.error = describe(delayed);
  }
  return report;
}

DataParallelCore::Handle DataParallelCore::handle() const {
  return Handle(self_);
}

DataParallelCore& DataParallelCore::Handle::operator*() const {
  DataParallelCore* const core = get();
  LOCKSTEP_CHECK(core != nullptr, UsageError,
                 "the wrapped model no longer exists: its "
                 "DistributedDataParallel was destroyed");
  return *core;
}

}  // namespace lockstep

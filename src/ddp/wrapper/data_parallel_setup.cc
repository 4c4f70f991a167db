// SPDX-License-Identifier: Apache-2.0
// How a wrapper is made: the model is taken apart, ranks compare, rank 0's
// values go to all, and a Reducer gets the parameters.
#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddp/reducer/check_parameters.h"
#include "ddp/reducer/reducer_core.h"
#include "ddp/wrapper/data_parallel_state.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/ddp/verify.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep {

DataParallelCore::DataParallelCore(std::shared_ptr<WrappedModel> model,
                                   std::shared_ptr<ProcessGroup> group,
                                   DdpOptions options)
    : state_(std::make_unique<State>(std::move(model), std::move(group),
                                     std::move(options))),
      self_(std::make_shared<DataParallelCore*>(this)) {
  LOCKSTEP_CHECK(state_->model != nullptr, UsageError, "the module is null");
  LOCKSTEP_CHECK(state_->group != nullptr, UsageError,
                 "the group is null; a rank outside a group cannot train in "
                 "it");
  const std::string problem = try_to_take_apart();
  if (!state_->options.init_sync) {
    LOCKSTEP_CHECK(problem.empty(), UsageError, "{}", problem);
    return;
  }
  agree(*state_->group, problem);
  send_values();
  make_reducers();
}

DataParallelCore::~DataParallelCore() = default;

// A rank with a wrong argument must not leave the others waiting: it keeps its
// error until they know.
std::string DataParallelCore::try_to_take_apart() {
  try {
    state_->parts = detail::take_apart(*state_->model, state_->options);
    detail::check_reducible(state_->reduced_parameters(),
                            state_->reducer_options());
    state_->stats.emplace(state_->parts, *state_->group, state_->options);
    LOCKSTEP_CHECK(state_->options.check_replicas_every >= 0, UsageError,
                   "DdpOptions::check_replicas_every is {}; it is 0 or more",
                   state_->options.check_replicas_every);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void DataParallelCore::agree(ProcessGroup& group, const std::string& problem) {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  for (const auto& one : state_->parts.parameters) {
    tensors.push_back(one.tensor);
    names.push_back(one.name);
  }
  for (const auto& [name, buffer] : state_->buffers_now()) {
    tensors.push_back(buffer);
    names.push_back("buffer " + name);
  }
  // First, so that it is what the others are told of.
  std::vector<std::string> lines = state_->settings();
  lines.insert(lines.begin(),
               "problem = " + (problem.empty() ? "none" : problem));
  try {
    verify_parameters(group, tensors, names, lines);
  } catch (const MismatchError&) {
    if (problem.empty()) throw;
  }
  LOCKSTEP_CHECK(problem.empty(), UsageError, "{}", problem);
}

std::vector<std::string> DataParallelCore::State::settings() const {
  std::vector<std::string> ignored = options.ignored;
  std::sort(ignored.begin(), ignored.end());
  std::vector<std::string> late = options.delayed.names;
  std::sort(late.begin(), late.end());
  std::vector<std::string> lines = {
      fmt::format("ignored = {}", fmt::join(ignored, ", ")),
      fmt::format("delayed = {}", fmt::join(late, ", ")),
      fmt::format("delayed.trigger = {}", options.delayed.trigger),
      fmt::format("init_sync = {}", options.init_sync),
      fmt::format("broadcast_buffers = {}", options.broadcast_buffers),
      fmt::format("check_replicas_every = {}", options.check_replicas_every)};
  for (auto& line : detail::settings_text(reducer_options())) {
    lines.push_back(std::move(line));
  }
  return lines;
}

ReducerOptions DataParallelCore::State::reducer_options() const {
  ReducerOptions reducer_options;
  static_cast<ReductionOptions&>(reducer_options) = options;
  reducer_options.verify = false;  // done, with more to compare
  for (const auto& one : parts.parameters) {
    if (!one.requires_grad || one.is_delayed) continue;
    reducer_options.names.push_back(one.name);
    reducer_options.expect_sparse.push_back(one.has_sparse_gradient);
  }
  return detail::with_environment(std::move(reducer_options));
}

std::vector<at::Tensor> DataParallelCore::State::reduced_parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& one : parts.parameters) {
    if (one.requires_grad && !one.is_delayed) tensors.push_back(one.tensor);
  }
  return tensors;
}

// Frozen parameters too; and none is ever sent again.
void DataParallelCore::send_values() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  for (const auto& one : state_->parts.parameters) {
    tensors.push_back(one.tensor);
  }
  broadcast_coalesced(state_->group, tensors)->wait();
  state_->buffers.send_all(*state_->group, state_->buffers_now());
}

void DataParallelCore::make_reducers() {
  if (!state_->options.delayed.names.empty()) {
    state_->delayed = detail::DelayedGradients::make(
        state_->parts, state_->options.delayed.trigger, state_->group,
        state_->reducer_options());
  }
  state_->reducer = std::make_unique<Reducer>(
      state_->reduced_parameters(), state_->group, state_->reducer_options());
  state_->stats->note_buckets(*state_->reducer);
  state_->reducer->on_first_launch([this] {
    if (state_->options.broadcast_buffers && !state_->buffer_hook) {
      state_->buffers.tell_changes(*state_->reducer->group());
    }
  });
  if (state_->delayed) {
    state_->reducer->on_backward_end([this] { end_delayed(); });
  }
}

// A backward has ended in which no delayed parameter has a part: it must end
// for them too, with an error if that is one.
void DataParallelCore::end_delayed() {
  Reducer& delayed = state_->delayed->reducer();
  const bool begun =
      delayed.backwards() + state_->delayed_lag == state_->reducer->backwards();
  if (!begun) delayed.finish_backward();
}

Reducer& DataParallelCore::reducer() {
  if (!state_->reducer) {
    agree(*state_->group, "");
    make_reducers();
  }
  return *state_->reducer;
}

DataParallelCore::Cores DataParallelCore::cores() {
  const auto main = reducer().core_;
  if (!state_->delayed) return {main};
  return {state_->delayed->reducer().core_, main};
}

void DataParallelCore::update_process_group(
    std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError, "the new group is null");
  agree(*group, "");
  state_->group = std::move(group);
  if (state_->options.init_sync) send_values();
  state_->buffers.forget();
  state_->forwards = 0;
  if (!state_->reducer) return;
  for (const auto& one : cores()) one->update_process_group(state_->group);
  if (state_->delayed) {
    state_->delayed->set_hook();
    state_->delayed_lag =
        state_->reducer->backwards() - state_->delayed->reducer().backwards();
  }
  state_->stats->note_buckets(*state_->reducer);
}

void DataParallelCore::reset_state() {
  if (!state_->reducer) return;
  update_process_group(state_->group);
}

void DataParallelCore::remove_hooks() {
  state_->is_removed = true;
  state_->delayed = nullptr;
  if (state_->reducer) state_->reducer->remove_autograd_hooks();
}

}  // namespace lockstep

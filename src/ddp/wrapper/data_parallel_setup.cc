// SPDX-License-Identifier: Apache-2.0
// How a wrapper is made: the parameters and buffers of the model are listed,
// ranks compare them, all ranks get rank 0's values, and a Reducer gets the
// parameters.
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
namespace {

const char* type_text(const std::optional<at::ScalarType>& type) {
  return type ? c10::toString(*type) : "as the model has it";
}

}  // namespace

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

// Returns the error, or "". A rank with a wrong argument must not leave the
// others waiting: it throws its error when agree() has told them.
std::string DataParallelCore::try_to_take_apart() {
  try {
    state_->parts = detail::take_apart(*state_->model, state_->options);
    state_->apply_types();
    detail::check_reducible(state_->reduced_parameters(),
                            state_->reducer_options());
    state_->stats.emplace(state_->parts, *state_->group, state_->options);
    LOCKSTEP_CHECK(state_->options.check_replicas_every >= 0, UsageError,
                   "DdpOptions::check_replicas_every is {} but must be 0 or "
                   "more",
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
  // The first line that differs is the one that the other ranks are told.
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
      fmt::format("mixed_precision.parameter_type = {}",
                  type_text(options.mixed_precision.parameter_type)),
      fmt::format("mixed_precision.buffer_type = {}",
                  type_text(options.mixed_precision.buffer_type)),
      fmt::format("check_replicas_every = {}", options.check_replicas_every)};
  for (auto& line : detail::settings_text(reducer_options())) {
    lines.push_back(std::move(line));
  }
  return lines;
}

ReducerOptions DataParallelCore::State::reducer_options() const {
  ReducerOptions reducer_options;
  const ReductionOptions& in_common = options;
  static_cast<ReductionOptions&>(reducer_options) = in_common;
  reducer_options.reduce_type = options.mixed_precision.reduce_type;
  reducer_options.verify = false;  // agree() compares these options and more
  for (const auto& one : parts.parameters) {
    if (!one.requires_grad || one.is_delayed) continue;
    reducer_options.names.push_back(one.name);
    reducer_options.expect_sparse.push_back(one.has_sparse_gradient);
  }
  return detail::with_environment(std::move(reducer_options));
}

// What mixed_precision asks of the model itself.
void DataParallelCore::State::apply_types() {
  const MixedPrecision& types = options.mixed_precision;
  for (const auto& type : {types.parameter_type, types.buffer_type}) {
    LOCKSTEP_CHECK(!type || at::isFloatingType(*type), UsageError,
                   "mixed_precision has the type {}; expected a floating type",
                   c10::toString(type.value_or(at::kFloat)));
  }
  if (types.buffer_type) {
    for (const auto& [name, buffer] : buffers_now()) {
      if (!at::isFloatingType(buffer.scalar_type())) continue;
      at::Tensor(buffer).set_data(buffer.to(*types.buffer_type));
    }
  }
  if (!types.parameter_type) return;
  // Batch normalisation has the type of its running statistics.
  std::vector<at::Tensor> kept;
  if (!types.buffer_type) kept = model->normalising_parameters();
  std::vector<at::Tensor> lowered;
  for (const auto& one : parts.parameters) {
    const bool is_kept = std::any_of(
        kept.begin(), kept.end(),
        [&](const at::Tensor& other) { return other.is_same(one.tensor); });
    const bool is_floating = at::isFloatingType(one.tensor.scalar_type());
    if (is_floating && !is_kept) lowered.push_back(one.tensor);
  }
  low = std::make_shared<detail::LowPrecision>(std::move(lowered),
                                               *types.parameter_type);
}

std::vector<at::Tensor> DataParallelCore::State::reduced_parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& one : parts.parameters) {
    if (one.requires_grad && !one.is_delayed) tensors.push_back(one.tensor);
  }
  return tensors;
}

// Gives all ranks rank 0's parameters, frozen ones included, and buffers.
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
  state_->note_buckets();
  state_->reducer->on_first_launch([this] {
    if (state_->options.broadcast_buffers && !state_->buffer_hook) {
      state_->buffers.tell_changes(*state_->reducer->group());
    }
  });
  if (state_->delayed) {
    state_->reducer->on_backward_end([this] { end_delayed(); });
  }
}

// A backward has ended for the other parameters. If no delayed parameter got a
// gradient in it, the delayed ones must hear of its end here; a missing
// gradient is an error then.
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
  if (state_->low) state_->low->raise();
  agree(*group, "");
  state_->group = std::move(group);
  if (state_->options.init_sync) send_values();
  state_->buffers.forget();
  state_->forwards = 0;
  if (!state_->reducer) return;
  for (const auto& one : cores()) one->reset(state_->group);
  if (state_->delayed) {
    state_->delayed->set_hook();
    state_->delayed_lag =
        state_->reducer->backwards() - state_->delayed->reducer().backwards();
  }
  state_->note_buckets();
}

void DataParallelCore::reset_state() {
  if (!state_->reducer) return;
  update_process_group(state_->group);
}

void DataParallelCore::remove_hooks() {
  state_->is_removed = true;
  state_->low = nullptr;
  state_->delayed = nullptr;
  if (state_->reducer) state_->reducer->remove_autograd_hooks();
}

}  // namespace lockstep

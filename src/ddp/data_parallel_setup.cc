// SPDX-License-Identifier: Apache-2.0
// How a wrapper is made: the module is taken apart, ranks compare, rank 0's
// values go to all, and a Reducer gets the parameters.
#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddp/check_parameters.h"
#include "ddp/data_parallel_impl.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/ddp/verify.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep {

using Impl = DataParallelCore::Impl;

Impl::Impl(std::shared_ptr<torch::nn::Module> module,
           std::shared_ptr<ProcessGroup> group, DdpOptions options)
    : module_(std::move(module)),
      group_(std::move(group)),
      options_(std::move(options)) {
  LOCKSTEP_CHECK(module_ != nullptr, UsageError, "the module is null");
  LOCKSTEP_CHECK(group_ != nullptr, UsageError,
                 "the group is null; a rank outside a group cannot train in "
                 "it");
  const std::string problem = try_to_take_apart();
  if (!options_.init_sync) {
    LOCKSTEP_CHECK(problem.empty(), UsageError, "{}", problem);
    return;
  }
  agree(*group_, problem);
  send_values();
  make_reducers();
}

Impl::~Impl() = default;

// A rank with a wrong argument must not leave the others waiting: it keeps its
// error until they know.
std::string Impl::try_to_take_apart() {
  try {
    parts_ = detail::take_apart(*module_, options_);
    detail::check_parameters(reduced_parameters(), reducer_options());
    stats_.emplace(parts_, *group_, options_);
    LOCKSTEP_CHECK(options_.check_replicas_every >= 0, UsageError,
                   "DdpOptions::check_replicas_every is {}; it is 0 or more",
                   options_.check_replicas_every);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void Impl::agree(ProcessGroup& group, const std::string& problem) {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  for (const auto& one : parts_.parameters) {
    tensors.push_back(one.tensor);
    names.push_back(one.name);
  }
  for (const auto& [name, buffer] : detail::buffers_of(*module_, options_)) {
    tensors.push_back(buffer);
    names.push_back("buffer " + name);
  }
  // First, so that it is what the others are told of.
  std::vector<std::string> lines = settings();
  lines.insert(lines.begin(),
               "problem = " + (problem.empty() ? "none" : problem));
  try {
    verify_parameters(group, tensors, names, lines);
  } catch (const MismatchError&) {
    if (problem.empty()) throw;
  }
  LOCKSTEP_CHECK(problem.empty(), UsageError, "{}", problem);
}

std::vector<std::string> Impl::settings() const {
  std::vector<std::string> ignored = options_.ignored;
  std::sort(ignored.begin(), ignored.end());
  std::vector<std::string> delayed = options_.delayed.names;
  std::sort(delayed.begin(), delayed.end());
  std::vector<std::string> lines = {
      fmt::format("ignored = {}", fmt::join(ignored, ", ")),
      fmt::format("delayed = {}", fmt::join(delayed, ", ")),
      fmt::format("delayed.trigger = {}", options_.delayed.trigger),
      fmt::format("init_sync = {}", options_.init_sync),
      fmt::format("broadcast_buffers = {}", options_.broadcast_buffers),
      fmt::format("check_replicas_every = {}", options_.check_replicas_every)};
  for (auto& line : detail::settings_text(reducer_options())) {
    lines.push_back(std::move(line));
  }
  return lines;
}

ReducerOptions Impl::reducer_options() const {
  ReducerOptions options;
  options.bucket_caps_bytes = options_.bucket_caps_bytes;
  options.small_bucket_last = options_.small_bucket_last;
  options.bucket_plan = options_.bucket_plan;
  options.gradient_as_bucket_view = options_.gradient_as_bucket_view;
  options.find_unused_parameters = options_.find_unused_parameters;
  options.static_graph = options_.static_graph;
  options.skip_unused = options_.skip_unused;
  options.backwards_per_forward = options_.backwards_per_forward;
  options.timeout = options_.timeout;
  options.verify = false;  // done, with more to compare
  for (const auto& one : parts_.parameters) {
    if (!one.requires_grad || one.is_delayed) continue;
    options.names.push_back(one.name);
    options.expect_sparse.push_back(one.has_sparse_gradient);
  }
  return detail::with_environment(std::move(options));
}

std::vector<at::Tensor> Impl::reduced_parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& one : parts_.parameters) {
    if (one.requires_grad && !one.is_delayed) tensors.push_back(one.tensor);
  }
  return tensors;
}

// Frozen parameters too; and none is ever sent again.
void Impl::send_values() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  for (const auto& one : parts_.parameters) tensors.push_back(one.tensor);
  broadcast_coalesced(group_, tensors)->wait();
  buffers_.send_all(*group_, detail::buffers_of(*module_, options_));
}

void Impl::make_reducers() {
  if (!options_.delayed.names.empty()) {
    delayed_ = detail::DelayedGradients::make(parts_, options_.delayed.trigger,
                                              group_, reducer_options());
  }
  reducer_ = std::make_unique<Reducer>(reduced_parameters(), group_,
                                       reducer_options());
  stats_->note_buckets(*reducer_);
  reducer_->on_first_launch([this] {
    if (options_.broadcast_buffers && !buffer_hook_) {
      buffers_.tell_changes(*reducer_->group());
    }
  });
  if (delayed_) reducer_->on_backward_end([this] { end_delayed(); });
}

// A backward has ended in which no delayed parameter has a part: it must end
// for them too, with an error if that is one.
void Impl::end_delayed() {
  Reducer& delayed = delayed_->reducer();
  const bool begun =
      delayed.backwards() + delayed_lag_ == reducer_->backwards();
  if (!begun) delayed.finish_backward();
}

Reducer& Impl::reducer() {
  if (!reducer_) {
    agree(*group_, "");
    make_reducers();
  }
  return *reducer_;
}

std::vector<Reducer*> Impl::reducers() {
  Reducer* main = &reducer();
  if (!delayed_) return {main};
  return {&delayed_->reducer(), main};
}

void Impl::update_process_group(std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError, "the new group is null");
  agree(*group, "");
  group_ = std::move(group);
  if (options_.init_sync) send_values();
  buffers_.forget();
  forwards_ = 0;
  if (!reducer_) return;
  for (Reducer* one : reducers()) one->update_process_group(group_);
  if (delayed_) {
    delayed_->set_hook();
    delayed_lag_ = reducer_->backwards() - delayed_->reducer().backwards();
  }
  stats_->note_buckets(*reducer_);
}

void Impl::reset_state() {
  if (!reducer_) return;
  update_process_group(group_);
}

void Impl::remove_hooks() {
  removed_ = true;
  delayed_ = nullptr;
  if (reducer_) reducer_->remove_autograd_hooks();
}

void Impl::set_static_graph() {
  for (Reducer* one : reducers()) one->set_static_graph();
  options_.static_graph = true;
}

void Impl::register_buffer_hook(BufferHook hook, BufferHookTime when) {
  LOCKSTEP_CHECK(hook != nullptr, UsageError, "the buffer hook is empty");
  LOCKSTEP_CHECK(!buffer_hook_, UsageError,
                 "a buffer hook can be registered once, and one is");
  buffer_hook_ = std::move(hook);
  buffer_hook_time_ = when;
}

void Impl::sync_buffers() {
  buffers_.send_all(*reducer().group(), detail::buffers_of(*module_, options_));
}

void Impl::check_finalized() const {
  if (delayed_) delayed_->reducer().check_finalized();
  if (reducer_) reducer_->check_finalized();
}

DdpStats Impl::stats() {
  if (reducer_) stats_->note_step(*reducer_);
  DdpStats report = stats_->report(reducer_.get());
  report.static_graph = options_.static_graph;
  const auto delayed = delayed_ ? delayed_->reducer().error() : nullptr;
  if (delayed && !report.has_error) {
    report.has_error = true;
    report.error = describe(delayed);
  }
  return report;
}

}  // namespace lockstep

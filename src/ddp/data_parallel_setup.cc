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
  agree(problem);
  send_values();
  make_reducer();
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
  } catch (const UsageError& error) {
    return error.what();
  }
}

void Impl::agree(const std::string& problem) {
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
  std::vector<std::string> lines = settings();
  lines.push_back("problem = " + (problem.empty() ? "none" : problem));
  try {
    verify_parameters(*group_, tensors, names, lines);
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
  return options;
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

void Impl::make_reducer() {
  reducer_ = std::make_unique<Reducer>(reduced_parameters(), group_,
                                       reducer_options());
  stats_->note_buckets(*reducer_);
  reducer_->on_first_launch([this] {
    if (options_.broadcast_buffers && !buffer_hook_) {
      buffers_.tell_changes(*reducer_->group());
    }
  });
  make_delayed();
}

void Impl::make_delayed() {
  delayed_ = nullptr;
  if (options_.delayed.names.empty()) return;
  delayed_ = detail::DelayedGradients::make(parts_, options_.delayed.trigger,
                                            *reducer_, *group_, options_);
}

Reducer& Impl::reducer() {
  if (!reducer_) {
    agree("");
    make_reducer();
  }
  return *reducer_;
}

void Impl::update_process_group(std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError, "the new group is null");
  group_ = std::move(group);
  agree("");
  if (options_.init_sync) send_values();
  buffers_.forget();
  if (!reducer_) return;
  reducer_->update_process_group(group_);
  stats_->note_buckets(*reducer_);
  make_delayed();
}

void Impl::reset_state() {
  buffers_.forget();
  if (!reducer_) return;
  reducer_->reset_state();
  make_delayed();
}

void Impl::remove_hooks() {
  removed_ = true;
  delayed_ = nullptr;
  if (reducer_) reducer_->remove_autograd_hooks();
}

void Impl::set_static_graph() {
  reducer().set_static_graph();
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
  if (reducer_) reducer_->check_finalized();
}

DdpStats Impl::stats() {
  if (reducer_) stats_->note_step(*reducer_);
  return stats_->report(reducer_.get());
}

}  // namespace lockstep

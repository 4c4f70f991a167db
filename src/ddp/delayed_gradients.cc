// SPDX-License-Identifier: Apache-2.0
#include "ddp/delayed_gradients.h"

#include <algorithm>
#include <map>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddp/engine_task.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

DelayedGradients::DelayedGradients(Reducer& reducer,
                                   std::shared_ptr<ProcessGroup> lane)
    : reducer_(reducer), lane_(std::move(lane)) {}

std::shared_ptr<DelayedGradients> DelayedGradients::make(
    const ModuleParts& parts, const std::string& trigger, Reducer& reducer,
    ProcessGroup& group, const DdpOptions& options) {
  const at::NoGradGuard no_grad;
  const std::shared_ptr<DelayedGradients> self(new DelayedGradients(
      reducer, group.duplicate("delayed", options.timeout)));
  std::vector<at::Tensor> hooked;
  std::map<at::ScalarType, std::vector<Member>> by_type;
  at::Tensor trigger_tensor;
  for (const auto& one : parts.parameters) {
    if (one.name == trigger) trigger_tensor = one.tensor;
    if (!one.is_delayed) continue;
    by_type[one.tensor.scalar_type()].push_back(
        {hooked.size(), one.tensor, one.name});
    self->names_.push_back(one.name);
    hooked.push_back(one.tensor);
  }
  LOCKSTEP_CHECK(trigger_tensor.defined() && trigger_tensor.requires_grad(),
                 UsageError,
                 "the trigger '{}' of delayed parameters is ignored, requires "
                 "no gradient, or is the second name of a parameter",
                 trigger);
  self->places_.resize(hooked.size());
  for (auto& [type, members] : by_type) {
    for (size_t i = 0; i < members.size(); ++i) {
      self->places_[members[i].index] = {self->buckets_.size(), i};
    }
    self->buckets_.push_back(make_dense_bucket(
        std::move(members), self->access_, *self->lane_, true));
  }
  const auto found = std::find_if(
      hooked.begin(), hooked.end(),
      [&](const at::Tensor& one) { return one.is_same(trigger_tensor); });
  self->trigger_ = static_cast<size_t>(found - hooked.begin());
  self->trigger_name_ = trigger;
  std::vector<std::string> names = self->names_;
  if (found == hooked.end()) {
    hooked.push_back(trigger_tensor);
    names.push_back(trigger);
  }
  self->hooks_.emplace(hooked, names, self);
  return self;
}

void DelayedGradients::expect() {
  const std::lock_guard lock(mutex_);
  const bool begun = triggered_ || std::find(arrived_.begin(), arrived_.end(),
                                             true) != arrived_.end();
  if (expecting_ && begun) check_complete();
  expecting_ = true;
  triggered_ = false;
  ends_here_ = false;
  arrived_.assign(places_.size(), false);
  for (const auto& bucket : buckets_) bucket->expect_all();
}

void DelayedGradients::on_gradient(size_t index) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (!expecting_) return;
  const EngineTask task = EngineTask::current();
  if (task && !task.is_nested() && !ends_here_) {
    ends_here_ = true;
    EngineTask::at_end([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end_backward();
    });
  }
  if (index == trigger_) triggered_ = true;
  if (index < places_.size() && !arrived_[index]) {
    arrived_[index] = true;
    const Place place = places_[index];
    buckets_[place.bucket]->arrive(place.position, false);
  }
  launch_if_complete();
}

void DelayedGradients::launch_if_complete() {
  const bool complete =
      triggered_ && std::all_of(arrived_.begin(), arrived_.end(),
                                [](bool one) { return one; });
  if (!complete) return;
  expecting_ = false;
  std::vector<Future<void>> futures;
  for (const auto& bucket : buckets_) {
    const at::Tensor flat = bucket->view(0, 1).buffer();
    futures.push_back(all_reduce(*lane_, flat, ReduceOp::kAverage)->future());
  }
  reducer_.install_futures(futures);
}

void DelayedGradients::end_backward() {
  const std::lock_guard lock(mutex_);
  if (!expecting_) return;
  try {
    check_complete();
  } catch (const UsageError& error) {
    lane_->abort(error.what());  // others may have launched theirs
    throw;
  }
}

void DelayedGradients::check_complete() const {
  std::vector<std::string> missing;
  for (size_t i = 0; i < arrived_.size(); ++i) {
    if (!arrived_[i]) missing.push_back(fmt::format("'{}'", names_[i]));
  }
  LOCKSTEP_CHECK(triggered_, UsageError,
                 "the trigger '{}' of delayed parameters got no gradient, so "
                 "they were not averaged; choose one that every loss uses",
                 trigger_name_);
  LOCKSTEP_CHECK(missing.empty(), UsageError,
                 "delayed parameters got no gradient, so none of them was "
                 "averaged: {}; take those that a loss may not use out of "
                 "DdpOptions::delayed",
                 fmt::join(missing, ", "));
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// Making a Reducer, its buckets, and making them again.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "ddp/check_parameters.h"
#include "ddp/reducer_core.h"
#include "ddp/sparse_bucket.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/ddp/verify.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {
namespace {

size_t dense_bytes(const std::vector<PlanItem>& items) {
  size_t bytes = 0;
  for (const PlanItem& item : items) bytes += item.sparse ? 0 : item.bytes;
  return bytes;
}

}  // namespace

std::shared_ptr<ReducerCore> ReducerCore::make(
    Tensors parameters, std::shared_ptr<ProcessGroup> group,
    ReducerOptions options) {
  LOCKSTEP_CHECK(group != nullptr, UsageError,
                 "the group is null; a rank outside a group has nothing to "
                 "reduce");
  options = with_environment(std::move(options));
  check_parameters(parameters, options);
  const std::shared_ptr<ReducerCore> core(new ReducerCore(
      std::move(parameters), std::move(group), std::move(options)));
  // What is wrong on all ranks is found before the first collective.
  core->grad_hooks_.emplace(core->parameters_, core->names_, core);
  core->open_lane();
  if (core->options_.verify) {
    verify_parameters(*core->lane_, core->parameters_, core->names_,
                      settings_text(core->options_));
  }
  core->build_buckets(core->first_plan());
  return core;
}

ReducerCore::ReducerCore(Tensors parameters,
                         std::shared_ptr<ProcessGroup> group,
                         ReducerOptions options)
    : parameters_(std::move(parameters)),
      options_(std::move(options)),
      names_(names_of(parameters_, options_)),
      items_(plan_items(parameters_, options_)),
      parent_(std::move(group)),
      counter_(parameters_.size(), options_.static_graph,
               options_.backwards_per_forward) {
  if (options_.static_graph && options_.find_unused_parameters) {
    log_warn(
        "static_graph finds unused parameters by itself; "
        "find_unused_parameters is not needed and is ignored");
  }
  if (options_.static_graph || options_.find_unused_parameters) track_use();
}

void ReducerCore::track_use() {
  if (!used_) used_.emplace(parameters_.size());
  if (!unused_) unused_.emplace(parent_->rank(), names_);
}

ReducerCore::~ReducerCore() {
  const bool under_way =
      phase_ == Phase::kReducing || phase_ == Phase::kFinalizing;
  if (under_way && lane_ && !lane_->failure()) {
    // The other ranks need not wait for what will not come.
    lane_->abort("its Reducer was destroyed in the middle of a backward");
  }
}

void ReducerCore::open_lane() {
  lane_ = parent_->duplicate("ddp", options_.timeout);
}

BucketPlan ReducerCore::first_plan() const {
  return options_.bucket_plan
             ? *options_.bucket_plan
             : plan_for(reverse_order(items_.size()), items_, options_);
}

void ReducerCore::build_buckets(BucketPlan plan) {
  const at::NoGradGuard no_grad;
  if (plan_notice_ && plan != plan_) plan_notice_(plan);
  // The old memory goes with the last gradient that moves to the new.
  buckets_.clear();
  std::vector<std::unique_ptr<Bucket>> buckets;
  std::vector<Place> places(parameters_.size());
  for (const auto& bucket : plan.buckets) {
    for (size_t i = 0; i < bucket.items.size(); ++i) {
      places[bucket.items[i]] = {buckets.size(), i};
    }
    buckets.push_back(make_bucket(bucket.items));
  }
  plan_ = std::move(plan);
  buckets_ = std::move(buckets);
  places_ = std::move(places);
}

std::unique_ptr<Bucket> ReducerCore::make_bucket(
    const std::vector<size_t>& indices) {
  std::vector<Member> members;
  members.reserve(indices.size());
  for (const size_t index : indices) {
    members.push_back({index, parameters_[index], names_[index]});
  }
  if (items_[indices[0]].sparse) {
    const auto rows = sparse_rows_.find(indices[0]);
    return std::make_unique<SparseBucket>(
        std::move(members[0]), access_,
        rows == sparse_rows_.end() ? at::Tensor() : rows->second);
  }
  return make_dense_bucket(
      std::move(members), access_, *lane_,
      {options_.gradient_as_bucket_view,
       dense_bytes(items_) * static_cast<size_t>(lane_->size())});
}

bool ReducerCore::should_rebuild_buckets() {
  const Lock lock(mutex_);
  const bool order_is_fixed =
      options_.static_graph || !options_.find_unused_parameters;
  return !has_rebuilt_ && !seen_order_.empty() && order_is_fixed &&
         !options_.bucket_plan && phase_ != Phase::kReducing &&
         phase_ != Phase::kFinalizing && phase_ != Phase::kFailed;
}

bool ReducerCore::rebuild_buckets() {
  if (!should_rebuild_buckets()) return false;
  const trace::Span span("rebuild buckets", "ddp");
  Lock lock(mutex_);
  const std::vector<size_t> seen = std::exchange(seen_order_, {});
  has_rebuilt_ = true;
  bool changed = false;
  in_step(lock, [&] {
    lock.unlock();
    BucketPlan plan = plan_for(agree_on_order(*lane_, seen), items_, options_);
    changed = plan != plan_;  // on all ranks, or on none
    if (changed) build_buckets(std::move(plan));
    lock.lock();
    if (phase_ == Phase::kExpecting) start_cycle();
  });
  return changed;
}

void ReducerCore::set_group(std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError, "the new group is null");
  begin_reset();
  parent_ = std::move(group);
  end_reset();
}

void ReducerCore::reset_state() {
  begin_reset();
  end_reset();
}

void ReducerCore::begin_reset() {
  const Lock lock(mutex_);
  LOCKSTEP_CHECK(phase_ != Phase::kFinalizing && !launching_, UsageError,
                 "reset_state was called while buckets were being reduced; "
                 "call it after backward()");
  // A healthy lane completes what was launched, for others may wait for it.
  if (phase_ == Phase::kReducing && !lane_->failure()) {
    lane_->abort("its Reducer was reset in the middle of a backward");
  }
  enter(Phase::kIdle);
  error_ = nullptr;
  forwards_.clear();
  expects_unwatched_ = false;
  open_tasks_.clear();
  oldest_graph_ = next_graph_;
  seen_order_.clear();
  has_rebuilt_ = false;
  hook_is_fixed_ = false;
  futures_.clear();
  sparse_rows_.clear();
  divisor_ = 0;
  counter_ = ReadyCounter(parameters_.size(), options_.static_graph,
                          options_.backwards_per_forward);
  if (used_) used_->reset();
}

void ReducerCore::end_reset() {
  Lock lock(mutex_);
  in_step(lock, [&] {
    if (unused_) unused_.emplace(parent_->rank(), names_);
    if (!grad_hooks_) {
      grad_hooks_.emplace(parameters_, names_, weak_from_this());
    }
    lock.unlock();
    open_lane();
    build_buckets(first_plan());
  });
}

}  // namespace lockstep::detail

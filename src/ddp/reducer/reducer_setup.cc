// SPDX-License-Identifier: Apache-2.0
// How a Reducer and its buckets are made, rebuilt and reset.
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "ddp/reducer/check_parameters.h"
#include "ddp/reducer/reducer_core.h"
#include "ddp/reducer/sparse_bucket.h"
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

BucketPlan first_plan(const ParameterSet& parameters,
                      const ReducerOptions& options) {
  return options.bucket_plan ? *options.bucket_plan
                             : plan_for(reverse_order(parameters.size()),
                                        parameters.items, options);
}

RebuildWatch make_watch(const ReducerOptions& options) {
  return {options, options.bucket_plan.has_value()};
}

ReadyCounter make_counter(size_t parameters, const ReducerOptions& options) {
  return {parameters, options.static_graph, options.backwards_per_forward};
}

}  // namespace

std::shared_ptr<ReducerCore> ReducerCore::make(Tensors parameters, Group group,
                                               ReducerOptions options) {
  LOCKSTEP_CHECK(group != nullptr, UsageError,
                 "the group is null; a rank outside a group has nothing to "
                 "reduce");
  options = with_environment(std::move(options));
  const std::shared_ptr<ReducerCore> core(
      new ReducerCore(make_parameter_set(std::move(parameters), options),
                      std::move(group), options));
  // Mistakes that all ranks make are found before the first collective.
  core->grad_hooks_.emplace(core->parameters_.tensors, core->parameters_.names,
                            core);
  core->lanes_.open(core->parent_, options.timeout);
  if (options.verify) {
    verify_parameters(*core->group(), core->parameters_.tensors,
                      core->parameters_.names, settings_text(options));
  }
  core->build_buckets(first_plan(core->parameters_, options));
  return core;
}

ReducerCore::ReducerCore(ParameterSet parameters, Group group,
                         ReducerOptions options)
    : parameters_(std::move(parameters)),
      options_(std::move(options)),
      parent_(std::move(group)),
      counter_(make_counter(parameters_.size(), options_)),
      rebuild_(make_watch(options_)) {
  if (options_.static_graph && options_.find_unused_parameters) {
    log_warn(
        "static_graph finds unused parameters by itself; "
        "find_unused_parameters is not needed and is ignored");
  }
  if (options_.static_graph || options_.find_unused_parameters) track_use();
  if (options_.check_finite != FiniteCheck::kOff) {
    finite_.emplace(options_.check_finite);
  }
}

void ReducerCore::track_use() {
  if (!used_) used_.emplace(parameters_.size());
  if (!unused_) unused_.emplace(parent_->rank(), parameters_.names);
}

ReducerCore::~ReducerCore() {
  // The other ranks need not wait for buckets that will not come.
  if (phase_.is_under_way()) {
    lanes_.abort("its Reducer was destroyed in the middle of a backward");
  }
}

// ---- Buckets.

void ReducerCore::build_buckets(BucketPlan plan) {
  const at::NoGradGuard no_grad;
  const BucketPlan& before = queue_.plan();
  if (!before.buckets.empty() && plan != before) {
    notices_.plan_change(before, plan);
  }
  // Gradients in the old buckets keep that memory until they are moved to the
  // new ones.
  queue_.clear();
  BucketQueue::Buckets buckets;
  for (const auto& bucket : plan.buckets) {
    buckets.push_back(make_bucket(bucket.items));
  }
  queue_.set(std::move(plan), std::move(buckets));
}

std::unique_ptr<Bucket> ReducerCore::make_bucket(
    const std::vector<size_t>& indices) {
  std::vector<Member> members;
  members.reserve(indices.size());
  for (const size_t index : indices) {
    members.push_back(
        {index, parameters_.tensors[index], parameters_.names[index]});
  }
  if (parameters_.items[indices[0]].sparse) {
    const auto rows = coming_.sparse_rows.find(indices[0]);
    return std::make_unique<SparseBucket>(
        std::move(members[0]), access_,
        rows == coming_.sparse_rows.end() ? at::Tensor() : rows->second);
  }
  return make_dense_bucket(
      std::move(members), access_, *group(),
      {options_.gradient_as_bucket_view,
       dense_bytes(parameters_.items) * static_cast<size_t>(group()->size()),
       bucket_type(parameters_.tensors[indices[0]], false, options_)});
}

bool ReducerCore::should_rebuild_buckets() {
  const Lock lock(mutex_);
  return (rebuild_.is_due() || new_order_.is_pending()) &&
         phase_.is_between_steps();
}

bool ReducerCore::rebuild_buckets() {
  if (!should_rebuild_buckets()) return false;
  Lock lock(mutex_);
  if (!new_order_.is_pending()) {
    in_step(lock, [&] { new_order_.begin(*group(), rebuild_.take()); });
  }
  return finish_rebuild(lock);
}

// True when the plan has changed, which it does on all ranks or on none.
bool ReducerCore::finish_rebuild(Lock& lock) {
  if (!new_order_.is_pending()) return false;
  const trace::Span span("rebuild buckets", "ddp");
  bool changed = false;
  in_step(lock, [&] {
    lock.unlock();
    BucketPlan plan =
        plan_for(new_order_.finish(), parameters_.items, options_);
    changed = plan != queue_.plan();
    if (changed) build_buckets(std::move(plan));
    lock.lock();
    if (phase_.is(Phase::kExpecting)) start_cycle();
  });
  return changed;
}

void ReducerCore::set_bucket_plan(BucketPlan plan) {
  check_plan(plan, parameters_.items);
  Lock lock(mutex_);
  phase_.check_between_steps("set_bucket_plan");
  in_step(lock, [&] {
    lock.unlock();
    if (new_order_.is_pending()) new_order_.finish();  // the order is not used
    ReducerOptions options = options_;
    options.bucket_plan = std::move(plan);
    verify_parameters(*group(), {}, {}, settings_text(options));
    if (*options.bucket_plan != queue_.plan()) {
      build_buckets(*options.bucket_plan);
    }
    lock.lock();
    options_ = std::move(options);
    rebuild_ = make_watch(options_);
    if (phase_.is(Phase::kExpecting)) start_cycle();
  });
}

// ---- Another group, or the same one after a failure.

void ReducerCore::reset(Group new_parent) {
  forget_step();
  if (new_parent) parent_ = std::move(new_parent);
  Lock lock(mutex_);
  in_step(lock, [&] {
    if (unused_) unused_.emplace(parent_->rank(), parameters_.names);
    if (!grad_hooks_) {
      grad_hooks_.emplace(parameters_.tensors, parameters_.names,
                          weak_from_this());
    }
    lock.unlock();
    lanes_.open(parent_, options_.timeout);
    build_buckets(first_plan(parameters_, options_));
    notices_.group_change(group());
  });
}

void ReducerCore::forget_step() {
  const Lock lock(mutex_);
  LOCKSTEP_CHECK(!phase_.is(Phase::kFinalizing) && !queue_.is_launching(),
                 UsageError,
                 "reset_state was called while buckets were being reduced; "
                 "call it after backward()");
  // Between steps a lane completes the operations that were launched on it:
  // other ranks may wait for them.
  if (phase_.is(Phase::kReducing)) {
    lanes_.abort("its Reducer was reset in the middle of a backward");
  }
  phase_.reset();
  tracker_.reset();
  rebuild_ = make_watch(options_);
  new_order_.reset();
  hook_.is_registered = false;
  coming_ = {};
  counter_ = make_counter(parameters_.size(), options_);
  if (used_) used_->reset();
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// What programs call, handed on to the core.
#include <utility>

#include <fmt/format.h>

#include "ddp/reducer/plan_by_tensor.h"
#include "ddp/reducer/reducer_core.h"
#include "lockstep/base/error.h"
#include "lockstep/ddp/reducer.h"

namespace lockstep {

using detail::Notices;
using detail::ReducerCore;

Reducer::Reducer(Tensors parameters, std::shared_ptr<ProcessGroup> group,
                 ReducerOptions options)
    : core_(ReducerCore::make(std::move(parameters), std::move(group),
                              std::move(options))) {}

Reducer::~Reducer() { core_->remove_autograd_hooks(); }

Reducer::NoSync::NoSync(std::shared_ptr<ReducerCore> core)
    : core_(std::move(core)) {
  core_->add_no_sync(1);
}
Reducer::NoSync::~NoSync() { core_->add_no_sync(-1); }

void Reducer::prepare_for_forward() { core_->prepare_for_forward(); }
void Reducer::prepare_for_backward(const Tensors& outputs) {
  core_->prepare_for_backward(outputs);
}
Reducer::NoSync Reducer::no_sync() { return NoSync(core_); }
void Reducer::check_finalized() const { core_->check_finalized(); }
void Reducer::mark_ready(size_t parameter) { core_->mark_ready(parameter); }
void Reducer::finish_backward() { core_->finish_backward(); }
void Reducer::set_gradient_map(std::shared_ptr<GradientMap> map) {
  core_->set_gradient_map(std::move(map));
}
void Reducer::register_comm_hook(CommHook hook, const std::string& name) {
  core_->register_comm_hook(std::move(hook), name);
}
void Reducer::install_futures(const std::vector<Future<void>>& futures) {
  core_->install_futures(futures);
}
void Reducer::on_first_launch(std::function<void()> notice) {
  core_->add_notice("on_first_launch", &Notices::first_launch,
                    std::move(notice));
}
void Reducer::on_backward_end(std::function<void()> notice) {
  core_->add_notice("on_backward_end", &Notices::backward_end,
                    std::move(notice));
}
void Reducer::on_plan_change(PlanNotice notice) {
  core_->add_notice("on_plan_change", &Notices::plan_change, std::move(notice));
}
void Reducer::on_plan_change(
    std::function<void(const BucketPlan& after)> notice) {
  if (!notice) return on_plan_change(PlanNotice());  // throws the UsageError
  on_plan_change(PlanNotice([notice = std::move(notice)](
                                const BucketPlan& /*before*/,
                                const BucketPlan& after) { notice(after); }));
}
void Reducer::on_group_change(GroupNotice notice) {
  core_->add_notice("on_group_change", &Notices::group_change,
                    std::move(notice));
}
void Reducer::set_optimizer_in_backward(bool on) {
  core_->set_optimizer_in_backward(on);
}
void Reducer::set_static_graph() { core_->set_static_graph(); }
void Reducer::set_sparse_metadata(
    const std::map<std::string, at::Tensor>& rows) {
  core_->set_sparse_metadata(rows);
}
void Reducer::set_divisor(int ranks) { core_->set_divisor(ranks); }
int Reducer::divisor() const { return core_->hook_context().divisor(); }
const BucketPlan& Reducer::bucket_plan() const { return core_->bucket_plan(); }
bool Reducer::should_rebuild_buckets() const {
  return core_->should_rebuild_buckets();
}
bool Reducer::has_rebuilt_buckets() const {
  return core_->report().has_rebuilt_buckets;
}
bool Reducer::rebuild_buckets() { return core_->rebuild_buckets(); }
void Reducer::set_bucket_plan(BucketPlan plan) {
  core_->set_bucket_plan(std::move(plan));
}
void Reducer::set_bucket_plan(const std::vector<Tensors>& buckets) {
  core_->set_bucket_plan(detail::plan_by_tensor(buckets, core_->parameters()));
}
std::vector<GradBucket> Reducer::grad_buckets(bool zeros) {
  return core_->grad_buckets(zeros);
}
HookContext Reducer::hook_context() { return core_->hook_context(); }
Future<at::Tensor> Reducer::run_comm_hook(const GradBucket& bucket) {
  return core_->run_comm_hook(bucket);
}
Future<at::Tensor> Reducer::run_all_reduce_hook(const GradBucket& bucket) {
  return hooks::all_reduce()(bucket, core_->hook_context());
}
at::Tensor Reducer::local_used_map() const { return core_->local_used_map(); }
void Reducer::record_arrival_of_all() { core_->record_arrival_of_all(); }
const Reducer::Tensors& Reducer::parameters() const {
  return core_->parameters().tensors;
}
const std::vector<std::string>& Reducer::names() const {
  return core_->parameters().names;
}
const std::shared_ptr<ProcessGroup>& Reducer::group() const {
  return core_->group();
}
std::shared_ptr<ProcessGroup> Reducer::lane(const std::string& name) {
  return core_->hook_context().lane(name);
}
void Reducer::update_process_group(std::shared_ptr<ProcessGroup> group) {
  LOCKSTEP_CHECK(group != nullptr, UsageError, "the new group is null");
  core_->reset(std::move(group));
}
void Reducer::reset_state() { core_->reset(); }
void Reducer::remove_autograd_hooks() { core_->remove_autograd_hooks(); }
int64_t Reducer::iterations() const { return core_->report().iterations; }
int64_t Reducer::backwards() const { return core_->report().backwards; }
std::vector<std::chrono::nanoseconds> Reducer::backward_times() const {
  return core_->report().backward_times;
}
StepTimes Reducer::last_step() const { return core_->report().last_step; }
std::optional<NonFiniteGradient> Reducer::non_finite() const {
  return core_->report().non_finite;
}
StepTotals Reducer::all_steps() const { return core_->report().all_steps; }
bool Reducer::is_syncing() const { return core_->is_syncing(); }
void Reducer::check_parameters() const { core_->check_parameters(); }
std::vector<size_t> Reducer::unused_parameters() const {
  return core_->report().unused_parameters;
}
const std::string& Reducer::comm_hook_name() const {
  return core_->comm_hook_name();
}
bool Reducer::is_graph_static() const {
  return core_->report().is_graph_static;
}
std::exception_ptr Reducer::error() const { return core_->report().error; }

}  // namespace lockstep

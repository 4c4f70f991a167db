// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/stats_keeper.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

namespace lockstep::detail {
namespace {

StepTimes::TimePoint now() {
  return StepTimes::TimePoint(std::chrono::nanoseconds(trace::now_ns()));
}

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> values;
  for (const std::string name :
       {"MASTER_ADDR", "MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG",
        "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT",
        "GLOO_NUM_THREADS"}) {
    const char* value = std::getenv(name.c_str());
    std::string key = name;
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) {
      return static_cast<char>(std::tolower(c));
    });
    values[key] = value ? value : "N/A";
  }
  return values;
}

// Makes the average of `count - 1` numbers the average of `count` numbers.
void average_in(StepTimes::Duration& average, StepTimes::Duration newest,
                int64_t count) {
  average += (newest - average) / count;
}

double milliseconds(StepTimes::Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

StatsKeeper::StatsKeeper(const ModelParts& parts, const ProcessGroup& group,
                         const DdpOptions& options)
    : sample_rate_(options.stats_sample_rate) {
  LOCKSTEP_CHECK(sample_rate_ >= 1, UsageError,
                 "DdpOptions::stats_sample_rate is {} but must be at least 1",
                 sample_rate_);
  stats_.module_name = parts.model_name;
  note_group(group);
  for (const auto& one : parts.parameters) {
    if (!one.requires_grad || one.is_delayed) continue;
    bytes_.push_back(one.tensor.nbytes());
    stats_.total_parameter_size_bytes += bytes_.back();
    const std::string dtype = c10::toString(one.tensor.scalar_type());
    auto& dtypes = stats_.dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) {
      dtypes.push_back(dtype);
    }
  }
  stats_.num_parameter_tensors = bytes_.size();
  stats_.broadcast_buffers = options.broadcast_buffers;
  stats_.has_sync_bn = parts.has_sync_bn;
  stats_.bucket_cap_bytes = options.bucket_caps_bytes;
  stats_.find_unused_parameters = options.find_unused_parameters;
  stats_.gradient_as_bucket_view = options.gradient_as_bucket_view;
  stats_.static_graph = options.static_graph;
  stats_.comm_hook = "all_reduce";
  stats_.environment = read_environment();
}

std::vector<size_t> StatsKeeper::bucket_bytes(const BucketPlan& plan) const {
  std::vector<size_t> sizes;
  for (const auto& bucket : plan.buckets) {
    size_t sum = 0;
    for (const size_t parameter : bucket.items) sum += bytes_[parameter];
    sizes.push_back(sum);
  }
  return sizes;
}

void StatsKeeper::note_buckets(const ProcessGroup& group,
                               const BucketPlan& plan) {
  note_group(group);
  stats_.bucket_sizes = bucket_bytes(plan);
}

void StatsKeeper::note_group(const ProcessGroup& group) {
  stats_.world_size = group.size();
  stats_.rank = group.rank();
  stats_.backend_name = group.backend_name();
}

void StatsKeeper::begin_forward() { forward_.start = now(); }
void StatsKeeper::end_forward() { forward_.end = now(); }

void StatsKeeper::note_step(const StepReport& steps) {
  if (steps.all_steps.steps == stats_.steps) return;
  stats_.steps = steps.all_steps.steps;
  stats_.total_busy = steps.all_steps.busy;
  stats_.total_exposed = steps.all_steps.exposed;
  stats_.last_step = steps.last_step;
  stats_.last_step.forward = forward_;
  stats_.comm_hook = steps.comm_hook;
  if (is_sampled(stats_.iteration)) sample();
}

bool StatsKeeper::is_sampled(int64_t iteration) const {
  constexpr int64_t kFirst = 10;
  return iteration <= kFirst || iteration % sample_rate_ == 0;
}

void StatsKeeper::sample() {
  const StepTimes& step = stats_.last_step;
  const bool complete = step.forward.is_measured() &&
                        step.backward.is_measured() &&
                        step.communication.is_measured();
  if (!complete) return;
  stats_.sampled_step = step;
  ++stats_.samples;
  stats_.forward_compute_time = step.forward.duration();
  stats_.backward_compute_time = step.backward.duration();
  stats_.backward_comm_time = step.communication.duration();
  stats_.backward_compute_comm_overlap_time = std::max(
      StepTimes::Duration(0),
      StepTimes::Duration(std::min(step.backward.end, step.communication.end) -
                          step.communication.start));
  average_in(stats_.avg_forward_compute_time, stats_.forward_compute_time,
             stats_.samples);
  average_in(stats_.avg_backward_compute_time, stats_.backward_compute_time,
             stats_.samples);
  average_in(stats_.avg_backward_comm_time, stats_.backward_comm_time,
             stats_.samples);
  average_in(stats_.avg_backward_compute_comm_overlap_time,
             stats_.backward_compute_comm_overlap_time, stats_.samples);
  log_debug(fmt::format(
      "rank {}, iteration {}: on average forward {:.3f} ms, backward {:.3f} "
      "ms, communication {:.3f} ms, of which {:.3f} ms beside backward; hook "
      "{}, join {}",
      stats_.rank, stats_.iteration,
      milliseconds(stats_.avg_forward_compute_time),
      milliseconds(stats_.avg_backward_compute_time),
      milliseconds(stats_.avg_backward_comm_time),
      milliseconds(stats_.avg_backward_compute_comm_overlap_time),
      stats_.comm_hook, stats_.join_uneven_inputs ? "on" : "off"));
}

DdpStats StatsKeeper::report(const StepReport& steps,
                             const BucketPlan& plan) const {
  DdpStats report = stats_;
  report.comm_hook = steps.comm_hook;
  for (const size_t parameter : steps.unused_parameters) {
    report.unused_parameter_size += bytes_[parameter];
  }
  report.has_rebuilt_buckets = steps.has_rebuilt_buckets;
  if (report.has_rebuilt_buckets) {
    report.rebuilt_bucket_sizes = bucket_bytes(plan);
    for (const auto& bucket : plan.buckets) {
      report.rebuilt_per_bucket_param_indices.push_back(bucket.items);
    }
  }
  const auto& times = steps.backward_times;
  auto& order = report.prev_iteration_grad_ready_order_indices;
  order.resize(times.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return times[a] < times[b]; });
  report.can_set_static_graph = steps.is_graph_static;
  if (steps.error) {
    report.has_error = true;
    report.error = describe(steps.error);
  }
  return report;
}

}  // namespace lockstep::detail

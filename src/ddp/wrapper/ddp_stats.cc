// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/ddp_stats.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

int64_t stamp(StepTimes::TimePoint point) {
  return std::chrono::nanoseconds(point.time_since_epoch()).count();
}

Json to_json(const StepTimes& step) {
  return {{"forward_start", stamp(step.forward.start)},
          {"forward_end", stamp(step.forward.end)},
          {"backward_compute_start", stamp(step.backward.start)},
          {"backward_compute_end", stamp(step.backward.end)},
          {"backward_comm_start", stamp(step.communication.start)},
          {"backward_comm_end", stamp(step.communication.end)},
          {"busy", step.busy.count()},
          {"exposed", step.exposed.count()},
          {"overlap", step.overlap()}};
}

}  // namespace

double DdpStats::overlap() const {
  StepTimes all;
  all.busy = total_busy;
  all.exposed = total_exposed;
  return all.overlap();
}

std::string DdpStats::to_json() const {
  Json json = {
      {"module_name", module_name},
      {"world_size", world_size},
      {"rank", rank},
      {"is_multi_device_module", is_multi_device_module},
      {"num_parameter_tensors", num_parameter_tensors},
      {"total_parameter_size_bytes", total_parameter_size_bytes},
      {"dtypes", dtypes},
      {"bucket_sizes", bucket_sizes},
      {"device_ids", device_ids},
      {"output_device", output_device},
      {"broadcast_buffers", broadcast_buffers},
      {"has_sync_bn", has_sync_bn},
      {"bucket_cap_bytes", bucket_cap_bytes},
      {"find_unused_parameters", find_unused_parameters},
      {"gradient_as_bucket_view", gradient_as_bucket_view},
      {"backend_name", backend_name},
      {"static_graph", static_graph},
      {"comm_hook", comm_hook},
      {"join_uneven_inputs", join_uneven_inputs},
  };
  for (const auto& [name, value] : environment) json[name] = value;
  const Json happened = {
      {"iteration", iteration},
      {"unused_parameter_size", unused_parameter_size},
      {"has_rebuilt_buckets", has_rebuilt_buckets},
      {"rebuilt_bucket_sizes", rebuilt_bucket_sizes},
      {"rebuilt_per_bucket_param_indices", rebuilt_per_bucket_param_indices},
      {"prev_iteration_grad_ready_order_indices",
       prev_iteration_grad_ready_order_indices},
      {"can_set_static_graph", can_set_static_graph},
      {"has_error", has_error},
      {"error", error},
      {"samples", samples},
      {"forward_compute_time", forward_compute_time.count()},
      {"backward_compute_time", backward_compute_time.count()},
      {"backward_comm_time", backward_comm_time.count()},
      {"backward_compute_comm_overlap_time",
       backward_compute_comm_overlap_time.count()},
      {"avg_forward_compute_time", avg_forward_compute_time.count()},
      {"avg_backward_compute_time", avg_backward_compute_time.count()},
      {"avg_backward_comm_time", avg_backward_comm_time.count()},
      {"avg_backward_compute_comm_overlap_time",
       avg_backward_compute_comm_overlap_time.count()},
      {"sampled_step", lockstep::to_json(sampled_step)},
      {"last_step", lockstep::to_json(last_step)},
      {"steps", steps},
      {"total_busy", total_busy.count()},
      {"total_exposed", total_exposed.count()},
      {"overlap", overlap()},
  };
  json.update(happened);
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/ddp/step_times.h"

namespace lockstep {

// The settings of a DistributedDataParallel and the times of its steps, on this
// rank.
//
//   std::puts(ddp.stats().to_json().c_str());
//
// Names are those of PyTorch's DDPLoggingData, so that scripts find them.
// Beyond it, last_step holds the times of the last step, sampled or not.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): read by people
struct DdpStats {
  using Duration = StepTimes::Duration;

  // ---- The model and the settings.

  std::string module_name;
  int world_size = 1;
  int rank = 0;
  bool is_multi_device_module = false;  // CPU only, so far
  size_t num_parameter_tensors = 0;     // that are reduced
  size_t total_parameter_size_bytes = 0;
  std::vector<std::string> dtypes;
  std::vector<size_t> bucket_sizes;  // in bytes, as first planned
  std::vector<int> device_ids;       // none: CPU
  int output_device = -1;
  bool broadcast_buffers = false;
  bool has_sync_bn = false;
  std::vector<size_t> bucket_cap_bytes;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  std::string backend_name;
  bool static_graph = false;
  std::string comm_hook;
  bool join_uneven_inputs = false;
  // Variables by their name in lower case; "N/A" when not set.
  std::map<std::string, std::string> environment;

  // ---- The steps so far.

  int64_t iteration = 0;
  size_t unused_parameter_size = 0;  // bytes, in the last reduced backward
  bool has_rebuilt_buckets = false;
  std::vector<size_t> rebuilt_bucket_sizes;
  std::vector<std::vector<size_t>> rebuilt_per_bucket_param_indices;
  std::vector<size_t> prev_iteration_grad_ready_order_indices;
  bool can_set_static_graph = false;
  bool has_error = false;
  std::string error;

  // Of the newest sampled step, and averages over all sampled steps.
  int64_t samples = 0;
  Duration forward_compute_time{0};
  Duration backward_compute_time{0};
  Duration backward_comm_time{0};
  Duration backward_compute_comm_overlap_time{0};
  Duration avg_forward_compute_time{0};
  Duration avg_backward_compute_time{0};
  Duration avg_backward_comm_time{0};
  Duration avg_backward_compute_comm_overlap_time{0};
  // When the parts of the sampled step began and ended.
  StepTimes sampled_step;

  // ---- Every step.

  StepTimes last_step;
  int64_t steps = 0;  // that were reduced
  Duration total_busy{0};
  Duration total_exposed{0};
  // The share of all communication so far that was hidden, from 0 to 1.
  double overlap() const;

  // Durations are in nanoseconds; stamps too, of a clock that never goes back.
  std::string to_json() const;
};

}  // namespace lockstep

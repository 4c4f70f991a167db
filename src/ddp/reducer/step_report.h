// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ddp/finite_check.h"
#include "lockstep/ddp/step_times.h"

namespace lockstep::detail {

// What a Reducer has done so far, on this rank: all of it read at one moment.
struct StepReport {
  int64_t iterations = 0;  // forwards that were prepared
  int64_t backwards = 0;   // backwards in which gradients were reduced

  // Of the last such backward that has ended.
  StepTimes last_step;
  // By parameter: from prepare_for_backward() to the gradient.
  std::vector<std::chrono::nanoseconds> backward_times;
  // Parameters that got no gradient; empty when the Reducer does not look for
  // them.
  std::vector<size_t> unused_parameters;

  // With FiniteCheck::kVerdict: the first gradient of any rank that was not
  // finite.
  std::optional<NonFiniteGradient> non_finite;

  StepTotals all_steps;
  std::string comm_hook;  // its name
  bool has_rebuilt_buckets = false;
  bool is_graph_static = true;  // the same parameters were unused in every step
  std::exception_ptr error;     // what ended the last step, or null
};

}  // namespace lockstep::detail

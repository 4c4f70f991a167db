// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/plan/bucket_plan.h"

namespace lockstep::detail {

// The parameters of a Reducer, with their names in errors and their sizes and
// types in plans.
struct ParameterSet {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<PlanItem> items;

  size_t size() const { return tensors.size(); }
};

}  // namespace lockstep::detail

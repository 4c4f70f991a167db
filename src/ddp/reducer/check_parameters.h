// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/parameter_set.h"
#include "lockstep/ddp/reducer_options.h"

// The door of a Reducer: what it is given is checked here, and nowhere later.
namespace lockstep::detail {

// Errors: UsageError names the parameter or the option.
void check_reducible(const std::vector<at::Tensor>& parameters,
                     const ReducerOptions& options);

// Checks and names them.
ParameterSet make_parameter_set(std::vector<at::Tensor> parameters,
                                const ReducerOptions& options);

// Options with what the environment says.
ReducerOptions with_environment(ReducerOptions options);

// The names, or "parameter 0" and so on.
std::vector<std::string> names_of(const std::vector<at::Tensor>& parameters,
                                  const ReducerOptions& options);

// What planning needs to know.
std::vector<PlanItem> plan_items(const std::vector<at::Tensor>& parameters,
                                 const ReducerOptions& options);

// What ranks must agree on besides parameters, a line each.
std::vector<std::string> settings_text(const ReducerOptions& options);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/parameter_set.h"
#include "lockstep/ddp/reducer_options.h"

// Checks of the parameters and options that a Reducer is given.
namespace lockstep::detail {

// Errors: UsageError names the parameter or the option.
void check_reducible(const std::vector<at::Tensor>& parameters,
                     const ReducerOptions& options);

// The parameters, checked, with their names.
ParameterSet make_parameter_set(std::vector<at::Tensor> parameters,
                                const ReducerOptions& options);

// Options, changed as environment variables ask for.
ReducerOptions with_environment(ReducerOptions options);

// The names in the options, or "parameter 0" and so on.
std::vector<std::string> names_of(const std::vector<at::Tensor>& parameters,
                                  const ReducerOptions& options);

// The type in which the gradient of a parameter is reduced.
at::ScalarType bucket_type(const at::Tensor& parameter, bool is_sparse,
                           const ReducerOptions& options);

// Sizes and types, for planning.
std::vector<PlanItem> plan_items(const std::vector<at::Tensor>& parameters,
                                 const ReducerOptions& options);

// The options that must be equal on all ranks, as a line of text each.
std::vector<std::string> settings_text(const ReducerOptions& options);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ddp/ddp_options.h"
#include "lockstep/ddp/wrapped_model.h"

namespace lockstep::detail {

// A parameter of the model, and how its gradient is reduced.
struct ModelParameter {
  std::string name;  // the first name, if it has several
  at::Tensor tensor;
  bool requires_grad = true;
  bool has_sparse_gradient = false;
  bool is_delayed = false;
};

// The parameters of a model without the ignored ones, each tensor once, in the
// model's order.
struct ModelParts {
  std::string model_name;
  bool has_sync_bn = false;
  std::vector<ModelParameter> parameters;  // frozen ones too
  // The identities of all parameters that the model names, in its order; null
  // for the ignored ones.
  std::vector<const void*> identities;
};

// Errors: UsageError for a name in the options that the model does not have,
//         with the nearest name that it has; a tensor of which one name is
//         ignored or delayed and another is not; no parameter that requires a
//         gradient and is neither ignored nor delayed; a tensor that is not on
//         the CPU or has no storage.
ModelParts take_apart(const WrappedModel& model, const DdpOptions& options);

// Checks that the model still has these parameters.
// Errors: UsageError names a parameter that was replaced, added or removed, or
//         that was frozen and requires a gradient now.
void check_unchanged(const WrappedModel& model, const ModelParts& parts);

// The model's buffers without the ignored ones, each tensor once. Programs
// replace buffers, so ask before each use.
NamedTensors buffers_of(const WrappedModel& model, const DdpOptions& options);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ddp/ddp_options.h"
#include "lockstep/ddp/wrapped_model.h"

namespace lockstep::detail {

// A parameter of the model: where it goes.
struct ModelParameter {
  std::string name;  // the first, if it has several
  at::Tensor tensor;
  bool requires_grad = true;
  bool has_sparse_gradient = false;
  bool is_delayed = false;
};

// What a model consists of, without what is ignored and each tensor once, in
// the model's order.
struct ModelParts {
  std::string model_name;
  bool has_sync_bn = false;
  std::vector<ModelParameter> parameters;  // frozen ones too
  // All that the model names, in its order; null for the ignored.
  std::vector<const void*> identities;
};

// Errors: UsageError for a name in the options that is not there, with the
//         nearest that is; a tensor of which one name is ignored or delayed and
//         another is not; no parameter that requires a gradient and is neither;
//         one that is not on the CPU or has no storage.
ModelParts take_apart(const WrappedModel& model, const DdpOptions& options);

// Errors: UsageError names a parameter that was replaced since, or was frozen
//         and is not any more.
void check_unchanged(const WrappedModel& model, const ModelParts& parts);

// The model's buffers without the ignored, each tensor once, as they are at
// this moment: programs replace buffers.
NamedTensors buffers_of(const WrappedModel& model, const DdpOptions& options);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ddp/data_parallel_core.h"
#include "lockstep/ddp/ddp_options.h"

namespace lockstep::detail {

// A parameter of the module: where it goes.
struct ModuleParameter {
  std::string name;  // the first, if it has several
  at::Tensor tensor;
  bool requires_grad = true;
  bool has_sparse_gradient = false;
  bool is_delayed = false;
};

// What a module consists of, without what is ignored and each tensor once, in
// the module's order.
struct ModuleParts {
  std::string module_name;
  bool has_sync_bn = false;
  std::vector<ModuleParameter> parameters;  // frozen ones too
  // All that the module names, in its order; null for the ignored.
  std::vector<const void*> identities;
};

// Errors: UsageError for a name in the options that is not there, with the
//         nearest that is; a tensor of which one name is ignored or delayed and
//         another is not; no parameter that requires a gradient and is neither;
//         one that is not on the CPU or has no storage.
ModuleParts take_apart(const torch::nn::Module& module,
                       const DdpOptions& options);

// Errors: UsageError names a parameter that was replaced since, or was frozen
//         and is not any more.
void check_unchanged(const torch::nn::Module& module, const ModuleParts& parts);

// As they are now: programs replace them.
NamedTensors buffers_of(const torch::nn::Module& module,
                        const DdpOptions& options);
bool is_training(const torch::nn::Module& module);

}  // namespace lockstep::detail

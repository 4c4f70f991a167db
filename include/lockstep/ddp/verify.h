// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"

namespace lockstep {

// Checks that all ranks have the same parameters: number, names, shapes,
// strides, types, whether they require gradients; and the same `settings`, a
// line each, as "name = value". A collective that blocks; ranks compare hashes,
// and show each other everything only when those differ.
//
// Errors: MismatchError on all ranks, anchored "expects same model across all
//         ranks", names the ranks and what each has.
void verify_parameters(ProcessGroup& group,
                       const std::vector<at::Tensor>& parameters,
                       const std::vector<std::string>& names,
                       const std::vector<std::string>& settings = {});

}  // namespace lockstep

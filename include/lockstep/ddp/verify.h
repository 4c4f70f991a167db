// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"

namespace lockstep {

// Checks that all ranks have the same parameters (number, names, shapes,
// strides, types, whether they require gradients) and the same `settings`, each
// a line like "name = value". A collective that blocks; ranks compare hashes,
// and send each other the text only when hashes differ.
//
// Errors: MismatchError on all ranks, with the words "expects same model across
//         all ranks", names the ranks and what each has.
void verify_parameters(ProcessGroup& group,
                       const std::vector<at::Tensor>& parameters,
                       const std::vector<std::string>& names,
                       const std::vector<std::string>& settings = {});

}  // namespace lockstep

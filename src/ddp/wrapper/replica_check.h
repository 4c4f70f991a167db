// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/wrapper/model_parts.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::detail {

// Checks that all ranks have the same parameters, bit by bit. A collective that
// blocks and sends 8 bytes per parameter.
//
// Errors: MismatchError on all ranks names parameters and ranks.
void check_replicas(ProcessGroup& group,
                    const std::vector<ModelParameter>& parameters,
                    int64_t iteration);

}  // namespace lockstep::detail

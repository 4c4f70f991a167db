// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/store/store.h"

namespace lockstep::detail {

// What two processes have in common exactly when they can share memory and see
// each other in /proc: this boot of this kernel, and the namespace of process
// numbers. Host names say nothing: containers change them.
std::string host_identity();

// Whether all ranks of a job run on one host. All of them ask, once per store.
// Errors: those of meet().
bool is_one_host(const std::shared_ptr<Store>& store, int rank, int size,
                 Deadline deadline);

}  // namespace lockstep::detail

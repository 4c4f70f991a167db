// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

// The `local` backend: the ranks of a group are threads of one process. They
// see each other's memory, so a collective reads inputs and writes results
// where they are, without copies between.
//
//   auto groups = make_local_groups(4);
//   // thread r: groups[r]->all_reduce(...)
//
// Ownership: groups made by one factory find each other through it, and keep
//            what they share.
BackendFactory make_local_factory();

// A group of `size` ranks, one entry for each.
std::vector<std::shared_ptr<ProcessGroup>> make_local_groups(
    int size, const GroupOptions& options = {});

}  // namespace lockstep

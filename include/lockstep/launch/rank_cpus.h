// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The cpus `lockstep run --bind` would give to each of `ranks` ranks on this
// host, for those that are threads of one process: `bind` is core, numa or
// none. Zero ranks means one per core. A rank without cpus is not bound.
//
// Errors: UsageError for another word, SystemError.
std::vector<std::vector<int>> rank_cpus(int ranks, const std::string& bind);

}  // namespace lockstep

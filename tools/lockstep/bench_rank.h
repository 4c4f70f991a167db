// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench_options.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::tool {

// What a rank knows of the others, besides its group.
struct BenchPlace {
  bool threads = false;  // the ranks are threads of one process
  bool one_host = false;
};

// Measures all sizes as one rank of `group`; rank 0 prints and writes the file.
// Every rank calls it. Returns the exit code: 1 when a result was wrong.
//
// Errors: UsageError for options that do not fit the number of ranks, and what
//         collectives throw.
int bench_rank(const BenchOptions& options, ProcessGroup& group,
               const BenchPlace& place);

}  // namespace lockstep::tool

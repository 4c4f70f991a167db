// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench_options.h"

namespace lockstep::tool {

// Runs the benchmark where it belongs, and returns the exit code:
//
//   in a job of several ranks (`lockstep run`, mpirun, ...): as one of them;
//   for the backend `local`: with ranks that are threads of this process;
//   else: starts ranks on this host, each with the same command line.
//
// `words` is that command line, after the name of the program.
int start_bench(const BenchOptions& options,
                const std::vector<std::string>& words);

}  // namespace lockstep::tool

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::bench {

// How a command went: for benchmarks of whole programs.
struct CommandResult {
  int exit_code = 0;
  double seconds = 0;
  std::string output;  // both streams
};

// Runs `command` in a shell. Errors: SystemError when that is not possible.
CommandResult run_command(const std::string& command);

}  // namespace lockstep::bench

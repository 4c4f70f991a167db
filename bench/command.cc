// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "lockstep/base/error.h"

namespace lockstep::bench {

CommandResult run_command(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) throw SystemError("cannot run '" + command + "'", errno);
  CommandResult result;
  char chunk[4096];
  while (const size_t got = std::fread(chunk, 1, sizeof chunk, pipe)) {
    result.output.append(chunk, got);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}

}  // namespace lockstep::bench

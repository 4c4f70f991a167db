// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::detail {

// Cleans up when the launcher itself is killed.
//
// The system kills the ranks then, but not what they have started. So a small
// process, made before anything else, waits for the launcher's end of a pipe
// to close, and kills every process of the run that is left.
//
// Construct it while the process has one thread.
class Guard {
 public:
  explicit Guard(const std::string& launcher_id);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pid_t pid_ = -1;
  Fd pipe_;
};

// Kills every process that has `launcher_id` in the LOCKSTEP_LAUNCHER of its
// environment, wherever it has moved to, until there is none or five seconds
// have passed; the caller's own stays.
// Returns how many there were.
int kill_marked(const std::string& launcher_id);

}  // namespace lockstep::detail

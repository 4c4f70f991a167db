// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace lockstep::bench {

// Instructions that callgrind has counted.
struct Profile {
  double main_thread = 0;
  double other_threads = 0;
  // By function, what its calls took together, with all that they called.
  std::map<std::string, double> calls;

  // Of all functions whose names begin with `begin`; none of them may call
  // another. Errors: InternalError when there was no such call.
  double inside(const std::string& begin) const;
};

// Runs `command` under callgrind; the program says when to count
// (CALLGRIND_START_INSTRUMENTATION). Counts do not depend on what else the
// machine does.
//
// Errors: SystemError, and InternalError with what it printed when it fails.
Profile profile(const std::string& command);

}  // namespace lockstep::bench

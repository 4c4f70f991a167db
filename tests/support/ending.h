// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"

namespace lockstep::testing {

// How a rank ended, or one part of what it does, as it says itself in a line:
//
//   done
//   skip REASON
//   error PEER NANOSECONDS KIND: TEXT
//
// with the time of the steady clock, which all processes of a host share.
struct Ending {
  std::string kind;  // "peer error", "timeout", ...; "done", "skip", or "" for
                     // silence
  int peer = -1;     // the rank the error is about
  Deadline::Clock::time_point when;
  std::string text;
};

// The line that says so.
std::string line_of(const Error& error);

// And what it says; nothing for any other line.
std::optional<Ending> ending_of(const std::string& line);

}  // namespace lockstep::testing

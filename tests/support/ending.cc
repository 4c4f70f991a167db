// SPDX-License-Identifier: Apache-2.0
#include "support/ending.h"

#include <sstream>

#include <fmt/format.h>

namespace lockstep::testing {

std::string line_of(const Error& error) {
  const auto now = Deadline::Clock::now().time_since_epoch();
  return fmt::format("error {} {} {}: {}", error.context().peer,
                     std::chrono::nanoseconds(now).count(),
                     to_text(error.kind()), error.what());
}

std::optional<Ending> ending_of(const std::string& line) {
  Ending ending;
  ending.when = Deadline::Clock::now();
  ending.text = line;
  if (line == "done" || line.rfind("skip ", 0) == 0) {
    ending.kind = line.substr(0, 4);
    return ending;
  }
  if (line.rfind("error ", 0) != 0) return std::nullopt;
  std::istringstream words(line);
  std::string error;
  int64_t nanoseconds = 0;
  words >> error >> ending.peer >> nanoseconds >> std::ws;
  std::getline(words, ending.kind, ':');
  std::getline(words, ending.text);
  ending.when = Deadline::Clock::time_point(
      std::chrono::duration_cast<Deadline::Clock::duration>(
          std::chrono::nanoseconds(nanoseconds)));
  return ending;
}

}  // namespace lockstep::testing

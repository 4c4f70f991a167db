// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/rank_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {

TimeoutError late_ranks(Deadline::Duration timeout,
                        const std::vector<int>& ranks) {
  TimeoutError error(fmt::format(
      "timed out after {} waiting for {}; is it still running, and has it made "
      "the same calls?",
      to_text(timeout), ranks_text(ranks)));
  if (!ranks.empty()) {
    ErrorContext context;
    context.peer = ranks.front();
    error.add_context(context);
  }
  return error;
}

PeerError rank_that_left(int rank) {
  return PeerError(
      fmt::format("rank {} has left the group: it was destroyed there, or its "
                  "thread or process has ended",
                  rank),
      rank);
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks, ", "));
}

}  // namespace lockstep

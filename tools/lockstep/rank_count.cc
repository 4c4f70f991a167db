// SPDX-License-Identifier: Apache-2.0
#include "rank_count.h"

#include "lockstep/base/error.h"

namespace lockstep::tool {

int rank_count_of(const std::string& text) {
  if (text == "auto") return 0;
  size_t used = 0;
  int ranks = 0;
  try {
    ranks = std::stoi(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || ranks < 1) {
    throw UsageError("-n wants a number of ranks, 1 or more, or auto, not '" +
                     text + "'");
  }
  return ranks;
}

}  // namespace lockstep::tool

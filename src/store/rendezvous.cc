// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/rendezvous.h"

#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

std::string joined_key(int rank) { return fmt::format("joined/{}", rank); }

// "3, 5, 6" and, for many, "3, 5, ... and 12 more".
std::string list_of(const std::vector<int>& ranks) {
  constexpr size_t kMostNamed = 16;
  std::string text;
  for (size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  if (ranks.size() > kMostNamed) {
    text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  }
  return text;
}

std::vector<int> missing_ranks(Store& store, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!store.check({joined_key(rank)})) missing.push_back(rank);
  }
  return missing;
}

// "2 of 4 ranks joined, missing: 1, 3".
std::string progress(Store& store, int size) {
  const auto missing = missing_ranks(store, size);
  return fmt::format("{} of {} ranks joined, missing: {}",
                     size - static_cast<int>(missing.size()), size,
                     list_of(missing));
}

}  // namespace

void meet(Store& store, int rank, int size, Deadline deadline,
          Deadline::Duration notice_after) {
  LOCKSTEP_TRACE_SCOPE("meet", "store");
  LOCKSTEP_CHECK(size > 0 && rank >= 0 && rank < size, UsageError,
                 "rank {} is not in 0..{} of a world of {}", rank, size - 1,
                 size);
  const auto allowed = deadline.remaining();
  const auto agreed = store.compare_set("size", {}, fmt::format("{}", size));
  LOCKSTEP_CHECK(
      to_string(*agreed.value) == fmt::format("{}", size), MismatchError,
      "rank {} was started with a world size of {}, but another rank with {}",
      rank, size, to_string(*agreed.value));
  LOCKSTEP_CHECK(store.compare_set(joined_key(rank), {}, "").stored,
                 MismatchError,
                 "rank {} has joined before; two processes were started with "
                 "the same rank, or an old process is still running",
                 rank);
  // A counter and one key that the last one sets: a handful of messages per
  // rank, however many there are.
  if (store.add("count", 1) == size) store.set("all", "");
  for (;;) {
    try {
      return store.wait({"all"}, earlier(deadline, Deadline::in(notice_after)));
    } catch (const TimeoutError&) {
      LOCKSTEP_CHECK(!deadline.passed(), TimeoutError,
                     "rank {}: {} after {}; are those ranks running, and do "
                     "they use the same store?",
                     rank, progress(store, size), to_text(allowed));
      log_info(fmt::format("rank {}: waiting for the others: {}", rank,
                           progress(store, size)));
    }
  }
}

}  // namespace lockstep

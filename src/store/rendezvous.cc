// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/rendezvous.h"

#include <sstream>
#include <utility>
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

// The store, with one deadline for every call, also for those that do not wait:
// a server that hangs must not keep us longer.
class TimedStore {
 public:
  TimedStore(Store& store, Deadline deadline)
      : store_(store), deadline_(deadline) {}

  // Sets `key` unless it is there; returns what is there then, and whether it
  // was set now.
  std::pair<std::string, bool> set_once(const std::string& key,
                                        const std::string& value) {
    const auto reply = store_.call(
        {StoreOp::kCompareSet, {key}, {to_vector(value)}, 0}, deadline_);
    return {to_string(reply.values.front()), reply.number == 1};
  }
  void set(const std::string& key) {
    store_.call({StoreOp::kSet, {key}, {{}}, 0}, deadline_);
  }
  int64_t add_one(const std::string& key) {
    return store_.call({StoreOp::kAdd, {key}, {}, 1}, deadline_).number;
  }
  void append(const std::string& key, const std::string& value) {
    store_.call({StoreOp::kAppend, {key}, {to_vector(value)}, 0}, deadline_);
  }
  std::string get(const std::string& key) {
    const auto reply = store_.call({StoreOp::kGet, {key}, {}, 0}, deadline_);
    return to_string(reply.values.front());
  }

 private:
  Store& store_;
  const Deadline deadline_;
};

// Who has not written itself into the list "here", which is one request
// however many ranks there are.
std::vector<int> missing_ranks(TimedStore store, int size) {
  std::vector<bool> here(static_cast<size_t>(size));
  std::istringstream list(store.get("here"));
  for (int rank = 0; list >> rank;) {
    if (rank >= 0 && rank < size) here[static_cast<size_t>(rank)] = true;
  }
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (!here[static_cast<size_t>(rank)]) missing.push_back(rank);
  }
  return missing;
}

// "2 of 4 ranks joined, missing: 1, 3".
std::string progress(Store& store, int size) {
  // The deadline may have passed: this is for its message, and short.
  const TimedStore moment(store, Deadline::in(std::chrono::seconds(1)));
  const auto missing = missing_ranks(moment, size);
  if (missing.empty()) {
    return fmt::format("all {} ranks came, and one ended before all had met",
                       size);
  }
  return fmt::format("{} of {} ranks joined, missing: {}",
                     size - static_cast<int>(missing.size()), size,
                     list_of(missing));
}

// Calls `wait(until)`, which throws TimeoutError when `until` has passed, in
// short turns with a look between.
template <class Wait>
auto wait_looking(Deadline deadline, const std::function<void()>& look,
                  const Wait& wait) {
  constexpr auto kTurn = std::chrono::milliseconds(50);
  while (true) {
    try {
      return wait(look ? earlier(deadline, Deadline::in(kTurn)) : deadline);
    } catch (const TimeoutError&) {
      if (deadline.passed()) throw;
      if (look) look();
    }
  }
}

}  // namespace

ByteVector get_looking(Store& store, const std::string& key, Deadline deadline,
                       const std::function<void()>& look) {
  return wait_looking(deadline, look,
                      [&](Deadline until) { return store.get(key, until); });
}

void meet(Store& store, int rank, int size, Deadline deadline,
          Deadline::Duration notice_after, const std::function<void()>& look) {
  LOCKSTEP_TRACE_SCOPE("meet", "store");
  LOCKSTEP_CHECK(size > 0 && rank >= 0 && rank < size, UsageError,
                 "rank {} is not in 0..{} of a world of {}", rank, size - 1,
                 size);
  const auto allowed = deadline.remaining();
  TimedStore timed(store, deadline);
  const auto [agreed, first] = timed.set_once("size", fmt::format("{}", size));
  LOCKSTEP_CHECK(
      first || agreed == fmt::format("{}", size), MismatchError,
      "rank {} was started with a world size of {}, but another rank with {}",
      rank, size, agreed);
  LOCKSTEP_CHECK(timed.set_once(joined_key(rank), "").second, MismatchError,
                 "rank {} has joined before; two processes were started with "
                 "the same rank, or an old process is still running",
                 rank);
  // A list for messages, a counter, and one key that the last one sets: a
  // handful of requests per rank, however many there are.
  timed.append("here", fmt::format("{} ", rank));
  if (timed.add_one("count") == size) timed.set("all");
  for (;;) {
    try {
      return wait_looking(earlier(deadline, Deadline::in(notice_after)), look,
                          [&](Deadline until) { store.wait({"all"}, until); });
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

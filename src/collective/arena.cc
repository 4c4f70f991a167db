// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/arena.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kMostFailureText = 1024;

}  // namespace

// The words all ranks share. `arrivals` counts every arrival of every round:
// whoever makes it a multiple of the size opens the gate.
struct Arena::Shared {
  alignas(kCacheLine) std::atomic<uint64_t> arrivals;
  alignas(kCacheLine) Gate gate;

  // Written by whoever breaks the gate, after that: there is one only.
  alignas(kCacheLine) std::atomic<uint32_t> failure_written;
  ErrorKind failure_kind;
  int32_t failure_by;
  int32_t failure_peer;
  char failure_text[kMostFailureText];

  void write_failure(const Failure& failure) {
    failure_kind = failure.kind;
    failure_by = failure.by;
    failure_peer = failure.peer;
    const size_t length = std::min(failure.text.size(), kMostFailureText - 1);
    std::memcpy(failure_text, failure.text.data(), length);
    failure_text[length] = '\0';
    failure_written.store(1, std::memory_order_release);
  }
  Failure read_failure() const {
    return {failure_kind, failure_by, failure_peer, failure_text};
  }
};

// What belongs to one rank.
struct Arena::Place {
  // The last round this rank came to: whom to name, and when memory is free.
  alignas(kCacheLine) std::atomic<uint64_t> arrived;
  alignas(kCacheLine) ArenaRecord records[2];
  alignas(kCacheLine) std::byte payloads[2][kPayloadBytes];
};

size_t Arena::block_bytes(int size) {
  return sizeof(Shared) + static_cast<size_t>(size) * sizeof(Place);
}

Arena::Arena(void* block, int rank, int size, WaitPolicy policy)
    : shared_(static_cast<Shared*>(block)),
      rank_(rank),
      size_(size),
      policy_(policy) {
  LOCKSTEP_CHECK(size <= kMostRanks, UsageError,
                 "{} ranks on one host; there is room for {}", size,
                 kMostRanks);
}

Arena::Place& Arena::place(int rank) const {
  return reinterpret_cast<Place*>(shared_ + 1)[rank];
}

std::byte* Arena::payload() {
  return place(rank_).payloads[(meetings_ + 1) % 2];
}
const std::byte* Arena::payload(int rank) const {
  return place(rank).payloads[meetings_ % 2];
}
const ArenaRecord& Arena::record(int rank) const {
  return place(rank).records[meetings_ % 2];
}

void Arena::meet(const ArenaRecord& mine, Patience& patience) {
  ++meetings_;
  place(rank_).records[meetings_ % 2] = mine;
  arrive_and_wait(patience);
  compare_records();
}

void Arena::part(Patience& patience) {
  try {
    arrive_and_wait(patience);
  } catch (...) {
    settle();
    throw;
  }
}

void Arena::exchange(const ArenaRecord& mine, Patience& patience,
                     const std::function<void()>& work) {
  meet(mine, patience);
  try {
    work();
  } catch (...) {
    // Others may be waiting in settle() for this rank to end its work.
    place(rank_).arrived.store(++round_, std::memory_order_release);
    fail(failure_of(std::current_exception(), rank_));
    settle();
    throw;
  }
  part(patience);
}

void Arena::arrive_and_wait(Patience& patience) {
  const uint64_t round = ++round_;
  place(rank_).arrived.store(round, std::memory_order_release);
  const uint64_t arrivals =
      shared_->arrivals.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrivals == round * static_cast<uint64_t>(size_)) {
    if (!shared_->gate.open(round)) throw_failure();
    return;
  }
  while (true) {
    switch (shared_->gate.wait(round, policy_, patience.wake_at())) {
      case Gate::State::kOpen:
        return;
      case Gate::State::kBroken:
        throw_failure();
      case Gate::State::kClosed:
        break;
    }
    if (patience.deadline().passed()) return give_up(round, patience);
    patience.still_waiting(missing(round));
  }
}

// Returns when the last rank came at the very last moment.
void Arena::give_up(uint64_t round, const Patience& patience) {
  const std::vector<int> late = missing(round);
  Failure failure;
  failure.kind = ErrorKind::kTimeout;
  failure.by = rank_;
  failure.peer = late.empty() ? -1 : late.front();
  failure.text = fmt::format(
      "timed out after {} waiting for rank{} {}; is it still running, and has "
      "it made the same calls?",
      to_text(patience.timeout()), late.size() == 1 ? "" : "s",
      fmt::join(late, ", "));
  // Nobody leaves a round that may still open: others would work on memory
  // that is no longer ours to give.
  if (!shared_->gate.break_before(round)) {
    if (shared_->gate.state(round) == Gate::State::kOpen) return;
    throw_failure();
  }
  shared_->write_failure(failure);
  TimeoutError error(failure.text);
  ErrorContext context;
  context.peer = failure.peer;
  error.add_context(context);
  throw error;
}

void Arena::throw_failure() const {
  // Whoever broke the gate is writing why, unless it was stopped or killed
  // just there.
  const Deadline moment = Deadline::in(std::chrono::seconds(1));
  while (shared_->failure_written.load(std::memory_order_acquire) == 0) {
    LOCKSTEP_CHECK(!moment.passed(), AbortedError,
                   "another rank ended the group and did not say why");
    sched_yield();
  }
  std::rethrow_exception(error_of(shared_->read_failure(), rank_));
}

std::vector<int> Arena::missing(uint64_t round) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (place(rank).arrived.load(std::memory_order_acquire) < round) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Every rank compares all records, so all find the same difference.
void Arena::compare_records() const {
  for (int rank = 1; rank < size_; ++rank) {
    if (record(rank).signature == record(0).signature) continue;
    std::vector<Signature> signatures;
    for (int r = 0; r < size_; ++r) signatures.push_back(record(r).signature);
    throw_mismatch(signatures);
  }
}

void Arena::fail(const Failure& failure) noexcept {
  if (shared_->gate.break_now()) shared_->write_failure(failure);
}

void Arena::leave() noexcept {
  fail({ErrorKind::kPeer, rank_, rank_,
        fmt::format("rank {} has left the group: it was destroyed there, or "
                    "its thread or process has ended",
                    rank_)});
}

void Arena::settle() {
  while (!missing(round_).empty()) sched_yield();
}

}  // namespace lockstep

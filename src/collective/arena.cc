// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/arena.h"

#include <sched.h>

#include <atomic>
#include <string>

#include <fmt/format.h>

#include "lockstep/collective/rank_errors.h"

namespace lockstep {
namespace {

constexpr size_t kCacheLine = 64;

}  // namespace

// The words all ranks share.
struct Arena::Shared {
  alignas(kCacheLine) Gate gate;

  // Why it was broken; the first one counts.
  alignas(kCacheLine) FailureNote failure;
};

// The one line of a rank that all look at in every meeting.
struct alignas(kCacheLine) Arena::Card {
  uint64_t digest;  // of the signature
  std::byte inline_payload[kInlineBytes];
};

// What belongs to one rank: nobody else writes here.
struct Arena::Place {
  // The last round this rank came to: whom to name, and when memory is free.
  alignas(kCacheLine) std::atomic<uint64_t> arrived;
  Card cards[2];
  alignas(kCacheLine) ArenaRecord records[2];
  alignas(kCacheLine) std::byte payloads[2][kPayloadBytes];
};

ArenaTuning ArenaTuning::for_ranks(int ranks, bool with_stage) {
  constexpr size_t kKb = 1024;
  ArenaTuning tuning;
  tuning.one_phase_bytes = ranks <= 2   ? Arena::kPayloadBytes
                           : ranks <= 8 ? 8 * kKb
                                        : 1 * kKb;
  if (with_stage) {
    tuning.window_bytes = ranks <= 4    ? 256 * kKb
                          : ranks <= 16 ? 128 * kKb
                                        : 64 * kKb;
  }
  return tuning;
}

size_t Arena::block_bytes(int size, ArenaTuning tuning) {
  return sizeof(Shared) + static_cast<size_t>(size) *
                              (sizeof(Place) + kStages * tuning.window_bytes);
}

Arena::Arena(void* block, int rank, int size, WaitPolicy policy,
             ArenaTuning tuning)
    : shared_(static_cast<Shared*>(block)),
      rank_(rank),
      size_(size),
      policy_(policy),
      tuning_(tuning) {
  LOCKSTEP_CHECK(size <= kMostRanks, UsageError,
                 "{} ranks on one host; there is room for {}", size,
                 kMostRanks);
  LOCKSTEP_ASSERT(tuning.one_phase_bytes <= kPayloadBytes &&
                  tuning.window_bytes % kCacheLine == 0);
}

Arena::Place& Arena::place(int rank) const {
  return reinterpret_cast<Place*>(shared_ + 1)[rank];
}

std::byte* Arena::payload_at(int rank, uint64_t meeting, size_t bytes) const {
  Place& of = place(rank);
  return bytes <= kInlineBytes ? of.cards[meeting % 2].inline_payload
                               : of.payloads[meeting % 2];
}
std::byte* Arena::payload(size_t bytes) {
  return payload_at(rank_, meetings_ + 1, bytes);
}
const std::byte* Arena::payload(int rank, size_t bytes) const {
  return payload_at(rank, meetings_, bytes);
}
const ArenaRecord& Arena::record(int rank) const {
  return place(rank).records[meetings_ % 2];
}

std::byte* Arena::stage(int rank, Stage stage) const {
  auto* const stages = reinterpret_cast<std::byte*>(&place(size_));
  const size_t index =
      static_cast<size_t>(rank) * kStages + static_cast<size_t>(stage);
  return stages + index * tuning_.window_bytes;
}

void Arena::meet(const ArenaRecord& mine, Patience& patience) {
  ++meetings_;
  const uint64_t digest = digest_of(mine.signature);
  place(rank_).records[meetings_ % 2] = mine;
  place(rank_).cards[meetings_ % 2].digest = digest;
  arrive_and_wait(patience);
  compare_digests(digest);
}

void Arena::part(Patience& patience) {
  try {
    arrive_and_wait(patience);
  } catch (...) {
    settle();
    throw;
  }
}

void Arena::work_and_part(Patience& patience,
                          const std::function<void()>& work) {
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
  Gate::State state = shared_->gate.arrive(round, size_);
  place(rank_).arrived.store(round, std::memory_order_release);
  if (state == Gate::State::kClosed) {
    state = shared_->gate.watch(round, size_, policy_);
  }
  while (state == Gate::State::kClosed) {
    state = shared_->gate.sleep(round, size_, patience.wake_at());
    if (state != Gate::State::kClosed) break;
    if (patience.deadline().passed()) return give_up(round, patience);
    patience.still_waiting(missing(round));
  }
  if (state == Gate::State::kBroken) throw_failure();
}

// Returns when the last rank came at the very last moment.
void Arena::give_up(uint64_t round, const Patience& patience) {
  const TimeoutError error = late_ranks(patience.timeout(), missing(round));
  // Nobody leaves a round that may still open: others would work on memory
  // that is no longer ours to give.
  if (!shared_->gate.break_before(round, size_)) {
    if (shared_->gate.state(round, size_) == Gate::State::kOpen) return;
    throw_failure();
  }
  shared_->failure.write(failure_of(std::make_exception_ptr(error), rank_));
  throw error;
}

void Arena::throw_failure() const {
  // Whoever broke the gate is writing why, unless it was stopped or killed
  // just there.
  const Deadline moment = Deadline::in(std::chrono::seconds(1));
  std::optional<Failure> failure;
  while (!(failure = shared_->failure.read())) {
    LOCKSTEP_CHECK(!moment.passed(), AbortedError,
                   "another rank ended the group and did not say why");
    sched_yield();
  }
  std::rethrow_exception(error_of(*failure, rank_));
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

// Every rank compares all, so all find the same difference.
void Arena::compare_digests(uint64_t mine) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (place(rank).cards[meetings_ % 2].digest == mine) continue;
    std::vector<Signature> signatures;
    signatures.reserve(static_cast<size_t>(size_));
    for (int r = 0; r < size_; ++r) signatures.push_back(record(r).signature);
    throw_mismatch(signatures);
  }
}

// The note is written before the gate is broken, so that whoever finds it
// broken can read why, even if the writer is killed between the two.
void Arena::fail(const Failure& failure) noexcept {
  shared_->failure.write(failure);
  shared_->gate.break_now();
}

void Arena::fail_for_dead(int rank, const Failure& failure) noexcept {
  shared_->failure.forget_writer(rank);
  fail(failure);
}

// A rank that leaves in good order writes about itself.
void Arena::check() const {
  if (!shared_->gate.is_broken()) return;
  const auto failure = shared_->failure.read();
  if (failure && failure->peer >= 0 && failure->by == failure->peer) return;
  throw_failure();
}

void Arena::leave() noexcept {
  fail(failure_of(std::make_exception_ptr(rank_that_left(rank_)), rank_));
}

void Arena::settle() {
  while (!missing(round_).empty()) sched_yield();
}

}  // namespace lockstep

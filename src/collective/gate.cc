// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/gate.h"

#include <sched.h>

#include <algorithm>

#include "lockstep/base/futex.h"

namespace lockstep {
namespace {

constexpr uint64_t kBroken = 1;
constexpr uint64_t kArrival = 2;

// A peer that is about to arrive is seen soonest without pauses between.
constexpr int kEagerSpins = 100;

// What the word is, at least, once `round` is open.
uint64_t opened(uint64_t round, int size) {
  return round * static_cast<uint64_t>(size) * kArrival;
}

// The half of the word that every arrival changes: futexes have 32 bits.
const void* low_half(const std::atomic<uint64_t>& word) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return &word;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

WaitPolicy WaitPolicy::for_ranks(int ranks, int cores) {
  if (ranks <= cores) return {2000, 20};
  return {0, 200};
}

WaitPolicy WaitPolicy::for_ranks(int ranks) {
  return for_ranks(ranks, usable_cores());
}

// The first guess is that nobody else has come yet. A wrong guess costs little:
// it fetched the line that the next one needs.
Gate::State Gate::arrive(uint64_t round, int size) {
  uint64_t word = opened(round - 1, size);
  while (!word_.compare_exchange_weak(word, word + kArrival)) {
    if ((word & kBroken) != 0) return State::kBroken;
  }
  if (word + kArrival < opened(round, size)) return State::kClosed;
  wake_all();
  return State::kOpen;
}

Gate::State Gate::state(uint64_t round, int size) const {
  const uint64_t word = word_.load(std::memory_order_acquire);
  if (word >= opened(round, size)) return State::kOpen;
  return (word & kBroken) != 0 ? State::kBroken : State::kClosed;
}

bool Gate::break_before(uint64_t round, int size) {
  uint64_t word = word_.load();
  do {
    if ((word & kBroken) != 0 || word >= opened(round, size)) return false;
  } while (!word_.compare_exchange_weak(word, word | kBroken));
  wake_all();
  return true;
}

// Wakes whatever the answer: the first one may have been killed before it did.
bool Gate::break_now() {
  const bool first = (word_.fetch_or(kBroken) & kBroken) == 0;
  wake_all();
  return first;
}

// A sleeper counts itself and then lets the kernel look at the word; whoever
// changes the word looks at the count afterwards. One of the two sees the
// other, so no wake is lost and none is paid for when nobody sleeps.
void Gate::wake_all() {
  if (sleepers_.load() != 0) futex_wake_all(low_half(word_));
}

Gate::State Gate::watch(uint64_t round, int size, WaitPolicy policy) const {
  for (int i = 0; i < policy.spins + policy.yields; ++i) {
    const State now = state(round, size);
    if (now != State::kClosed) return now;
    if (i >= policy.spins) {
      sched_yield();
    } else if (i >= kEagerSpins) {
      pause_core();
    }
  }
  return state(round, size);
}

Gate::State Gate::sleep(uint64_t round, int size, Deadline until) {
  while (true) {
    sleepers_.fetch_add(1);
    const auto word = static_cast<uint32_t>(word_.load());
    if (state(round, size) == State::kClosed) {
      futex_wait(low_half(word_), word, until);
    }
    sleepers_.fetch_sub(1);
    const State now = state(round, size);
    if (now != State::kClosed || until.passed()) return now;
  }
}

}  // namespace lockstep

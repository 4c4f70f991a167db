// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/gate.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace lockstep {
namespace {

constexpr uint32_t kBroken = 1;

uint32_t word_of(uint64_t round) { return static_cast<uint32_t>(round << 1); }

// Not the private kind: the word may lie in memory shared between processes.
// Returns on a wake, on the time, or for no reason at all.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                Deadline until) {
  const auto left =
      std::max<int64_t>(0, std::chrono::nanoseconds(until.remaining()).count());
  timespec time{};
  time.tv_sec = left / 1'000'000'000;
  time.tv_nsec = left % 1'000'000'000;
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

WaitPolicy WaitPolicy::for_ranks(int ranks_on_host) {
  if (ranks_on_host <= usable_cores()) return {2000, 20};
  return {0, 5};
}

Gate::State Gate::state(uint64_t round) const {
  const uint32_t word = word_.load(std::memory_order_acquire);
  if ((word & ~kBroken) == word_of(round)) return State::kOpen;
  return (word & kBroken) != 0 ? State::kBroken : State::kClosed;
}

bool Gate::open(uint64_t round) {
  uint32_t before = word_of(round - 1);
  if (!word_.compare_exchange_strong(before, word_of(round))) return false;
  wake_all();
  return true;
}

bool Gate::break_before(uint64_t round) {
  uint32_t before = word_of(round - 1);
  const bool broke = word_.compare_exchange_strong(before, before | kBroken);
  if (broke) wake_all();
  return broke;
}

bool Gate::break_now() {
  const bool first = (word_.fetch_or(kBroken) & kBroken) == 0;
  if (first) wake_all();
  return first;
}

// A sleeper counts itself and then lets the kernel look at the word; whoever
// changes the word looks at the count afterwards. One of the two sees the
// other, so no wake is lost and none is paid for when nobody sleeps.
void Gate::wake_all() {
  if (sleepers_.load() == 0) return;
  syscall(SYS_futex, &word_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Gate::State Gate::wait(uint64_t round, WaitPolicy policy, Deadline until) {
  for (int i = 0; i < policy.spins + policy.yields; ++i) {
    const State now = state(round);
    if (now != State::kClosed) return now;
    i < policy.spins ? pause_core() : static_cast<void>(sched_yield());
  }
  while (true) {
    sleepers_.fetch_add(1);
    const uint32_t word = word_.load(std::memory_order_acquire);
    State now = state(round);
    if (now == State::kClosed) futex_wait(word_, word, until);
    sleepers_.fetch_sub(1);
    now = state(round);
    if (now != State::kClosed || until.passed()) return now;
  }
}

}  // namespace lockstep

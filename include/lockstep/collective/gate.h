// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "lockstep/base/deadline.h"

namespace lockstep {

// How long to stay awake for a peer before sleeping: first watching the word,
// then giving the core away in the hope that the peer runs on it.
struct WaitPolicy {
  int spins = 0;
  int yields = 200;

  // Watching is worth it only when every rank has a core of its own; a lane
  // that spins next to its own rank's computation takes half of it away.
  // docs/shm.md has the measurements.
  static WaitPolicy for_ranks(int ranks, int cores);
  // The same for ranks that share the cores of the calling thread.
  static WaitPolicy for_ranks(int ranks);
};

// A Gate opens once per round, when all ranks have come to it, and can be
// broken: then it never opens again. One word counts the arrivals and says
// whether it is broken, so that a round is either completed for everybody or
// for nobody.
//
// It is plain memory without pointers: zeroed bytes are a gate at round 0, in
// one process or in memory that several processes map. Rounds begin at 1.
//
// Memory: what a rank did before it arrived, or before it broke the gate, is
// seen by every rank that finds the round open, or the gate broken.
class Gate {
 public:
  enum class State { kClosed, kOpen, kBroken };

  // One more rank has come to `round`. Whoever comes last opens it, and hears
  // so. A broken gate counts nobody any more.
  State arrive(uint64_t round, int size);

  // Whether `round` has been opened. A broken gate keeps what was opened.
  State state(uint64_t round, int size) const;

  bool is_broken() const { return (word_.load() & 1) != 0; }

  // Breaks it; false when it was broken before, or `round` opened meanwhile. So
  // of all who break it one is the first, and knows.
  bool break_before(uint64_t round, int size);
  // Breaks it whatever the round; false when it was broken before.
  bool break_now();

  // Waits until `round` is open or the gate broken: awake, for as long as the
  // policy says; asleep, until `until` has passed.
  State watch(uint64_t round, int size, WaitPolicy policy) const;
  State sleep(uint64_t round, int size, Deadline until);

 private:
  void wake_all();

  std::atomic<uint64_t> word_;      // arrivals << 1 | broken
  std::atomic<uint32_t> sleepers_;  // how many may be asleep
};

}  // namespace lockstep

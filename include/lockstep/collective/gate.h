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
  int yields = 5;

  // Watching is worth it only when every rank has a core of its own; a lane
  // that spins next to its own rank's computation takes half of it away.
  static WaitPolicy for_ranks(int ranks_on_host);
};

// A Gate opens once per round, for all ranks at the same time, and can be
// broken: then it never opens again. One word holds both, so that a round is
// either completed for everybody or for nobody.
//
// It is plain memory without pointers: zeroed bytes are a gate at round 0, in
// one process or in memory that several processes map.
//
// Memory: what a rank did before opening the gate, or before breaking it, is
// seen by every rank that finds it open, or broken.
class Gate {
 public:
  enum class State { kClosed, kOpen, kBroken };

  // Whether `round` has been opened. A broken gate keeps what was opened.
  State state(uint64_t round) const;

  // Opens `round`, the one after the last; false when it is broken.
  bool open(uint64_t round);

  // Breaks it; false when it was broken before, or `round` opened meanwhile. So
  // of all who break it one is the first, and knows.
  bool break_before(uint64_t round);
  // Breaks it whatever the round; false when it was broken before.
  bool break_now();

  // Waits until `round` is open or the gate broken, or `until` has passed.
  State wait(uint64_t round, WaitPolicy policy, Deadline until);

 private:
  void wake_all();

  std::atomic<uint32_t> word_;      // round << 1 | broken; the round wraps
  std::atomic<uint32_t> sleepers_;  // how many may be asleep
};

}  // namespace lockstep

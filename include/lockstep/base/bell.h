// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "lockstep/base/deadline.h"
#include "lockstep/base/futex.h"

namespace lockstep {

// The memory of a Bell: zeroed bytes are one that never rang.
struct BellWords {
  std::atomic<uint32_t> rings{0};
  std::atomic<uint32_t> sleepers{0};

  void ring() {
    rings.fetch_add(1);
    if (sleepers.load() != 0) futex_wake_all(&rings);
  }
};

// A Bell says "something may have changed, look again". A ring is never lost:
// whoever waits says how many it has heard, and returns at once when there
// were others.
//
//   uint32_t heard = bell.rings();
//   while (!look()) heard = bell.wait(heard, deadline);
//
// Threads: ring, rings and wait from any thread, any number of waiters.
class Bell {
 public:
  // Lets the bell hang in memory that others reach too, perhaps in other
  // processes: they ring `words`. Before the first wait, and once.
  void move_to(std::shared_ptr<BellWords> words) { words_ = std::move(words); }

  void ring() { words_->ring(); }

  // How many there have been; the number wraps around.
  uint32_t rings() const { return words_->rings.load(); }

  // Waits for a ring beyond `heard`, until the deadline; returns how many
  // there have been.
  uint32_t wait(uint32_t heard, Deadline deadline) const {
    while (rings() == heard && !deadline.passed()) {
      words_->sleepers.fetch_add(1);
      futex_wait(&words_->rings, heard, deadline);
      words_->sleepers.fetch_sub(1);
    }
    return rings();
  }

 private:
  std::shared_ptr<BellWords> words_ = std::make_shared<BellWords>();
};

}  // namespace lockstep

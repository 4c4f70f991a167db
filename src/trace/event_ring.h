// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/trace/trace.h"

namespace lockstep::detail {

// A ring of events with one writer and any number of readers, without a lock.
//
// The writer fills slot `head % capacity` and then moves `head`. A reader
// copies the slots, looks at `head` again, and throws away what the writer may
// have reached meanwhile. Slots are relaxed atomic words, so a copy that races
// with the writer is harmless garbage, never undefined behaviour.
//
// `begun` is moved before a slot is touched and `head` after. Each word is a
// release store and an acquire load, so a reader that sees any word of a new
// event also sees `begun` past it, and knows the slot as torn.
class EventRing {
 public:
  explicit EventRing(size_t capacity);

  void push(const trace::Event& event);  // by the owning thread only

  // Appends the events still held, oldest first; returns how many are lost.
  uint64_t copy_to(std::vector<trace::Event>& events) const;

 private:
  static constexpr size_t kWords = sizeof(trace::Event) / sizeof(uint64_t);
  static_assert(sizeof(trace::Event) % sizeof(uint64_t) == 0);

  const size_t capacity_;
  const std::unique_ptr<std::atomic<uint64_t>[]> words_;
  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> head_{0};
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "trace/event_ring.h"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {

EventRing::EventRing(size_t capacity)
    : capacity_(std::max<size_t>(capacity, 1)),
      words_(new std::atomic<uint64_t>[capacity_ * kWords]()) {}

void EventRing::push(const trace::Event& event) {
  const uint64_t index = head_.load(std::memory_order_relaxed);
  begun_.store(index + 1, std::memory_order_relaxed);
  uint64_t image[kWords];
  std::memcpy(image, &event, sizeof event);
  std::atomic<uint64_t>* slot = &words_[index % capacity_ * kWords];
  // Release on each word instead of one fence: the same code on x86, and the
  // thread sanitizer understands it.
  for (size_t i = 0; i < kWords; ++i) {
    slot[i].store(image[i], std::memory_order_release);
  }
  head_.store(index + 1, std::memory_order_release);
}

uint64_t EventRing::copy_to(std::vector<trace::Event>& events) const {
  const uint64_t head = head_.load(std::memory_order_acquire);
  const uint64_t oldest = head > capacity_ ? head - capacity_ : 0;
  const size_t at = events.size();
  for (uint64_t index = oldest; index < head; ++index) {
    const std::atomic<uint64_t>* slot = &words_[index % capacity_ * kWords];
    uint64_t image[kWords];
    for (size_t i = 0; i < kWords; ++i) {
      image[i] = slot[i].load(std::memory_order_acquire);
    }
    trace::Event event;
    std::memcpy(&event, image, sizeof event);
    events.push_back(event);
  }
  // Slots up to begun - capacity may have been written over while we copied.
  const uint64_t begun = begun_.load(std::memory_order_relaxed);
  const uint64_t intact = begun > capacity_ ? begun - capacity_ : 0;
  const uint64_t torn = std::clamp(intact, oldest, head) - oldest;
  events.erase(events.begin() + static_cast<ptrdiff_t>(at),
               events.begin() + static_cast<ptrdiff_t>(at + torn));
  return oldest + torn;
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/ring.h"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {

bool Ring::write(ConstBytes head, ConstBytes body) {
  const uint64_t at = written_.load(std::memory_order_relaxed);
  const uint64_t used = at - read_.load(std::memory_order_acquire);
  const size_t bytes = head.size() + body.size();
  if (bytes > kBytes - used) return false;
  put(at, head);
  put(at + head.size(), body);
  written_.store(at + bytes, std::memory_order_release);
  return true;
}

void Ring::put(uint64_t at, ConstBytes bytes) {
  if (bytes.empty()) return;
  const size_t begin = at % kBytes;
  const size_t first = std::min(bytes.size(), kBytes - begin);
  std::memcpy(data_ + begin, bytes.data(), first);
  std::memcpy(data_, bytes.data() + first, bytes.size() - first);
}

size_t Ring::readable() const {
  return written_.load(std::memory_order_acquire) -
         read_.load(std::memory_order_relaxed);
}

void Ring::peek(size_t offset, Bytes to) const {
  if (to.empty()) return;
  const size_t begin =
      (read_.load(std::memory_order_relaxed) + offset) % kBytes;
  const size_t first = std::min(to.size(), kBytes - begin);
  std::memcpy(to.data(), data_ + begin, first);
  std::memcpy(to.data() + first, data_, to.size() - first);
}

void Ring::consume(size_t bytes) {
  read_.store(read_.load(std::memory_order_relaxed) + bytes,
              std::memory_order_release);
}

}  // namespace lockstep::detail

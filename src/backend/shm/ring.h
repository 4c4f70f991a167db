// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lockstep/base/bytes.h"

namespace lockstep::detail {

// A pipe in shared memory, from one rank to another: one writes, one reads,
// neither ever waits for the other. Zeroed bytes are an empty ring.
//
// Memory: the writer publishes bytes by storing `written_` after them
//         (release), the reader loads it before it looks (acquire); `read_`
//         gives the room back in the same way. So each index is written by one
//         side only, and a side that is killed leaves whole frames or nothing.
class Ring {
 public:
  static constexpr size_t kBytes = size_t{256} * 1024;

  // Puts both into the ring, one behind the other; false when there is no room
  // for them.
  bool write(ConstBytes head, ConstBytes body);

  // How many bytes can be read now.
  size_t readable() const;
  // Copies bytes out, `offset` bytes from where reading stands.
  void peek(size_t offset, Bytes to) const;
  // They have been read.
  void consume(size_t bytes);

 private:
  void put(uint64_t at, ConstBytes bytes);

  alignas(64) std::atomic<uint64_t> written_;
  alignas(64) std::atomic<uint64_t> read_;
  alignas(64) std::byte data_[kBytes];
};

}  // namespace lockstep::detail

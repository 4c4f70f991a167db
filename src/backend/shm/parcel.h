// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "backend/shm/memory_file.h"
#include "lockstep/collective/types.h"

namespace lockstep::detail {

// A large message in a memory file of its own: the sender copies it in and
// offers it, the receiver takes it or the sender takes it back; one word in the
// file says which came first.
class Parcel {
 public:
  // Packs a message. Errors: SystemError when there is no room.
  explicit Parcel(const Buffer& message);
  // Opens the parcel that another process offers. Errors: SystemError when it
  // is gone.
  Parcel(pid_t sender, int fd, uint64_t cookie, size_t bytes);

  int fd() const { return file_->fd(); }
  uint64_t cookie() const;
  const std::byte* data() const { return mapping_.data() + kPageBytes; }

  bool was_taken() const;
  // Either returns true once, for one side only.
  bool take();
  bool withdraw();

 private:
  struct Header;
  enum : uint32_t { kOffered, kTaken, kWithdrawn };
  Header& header() const;
  bool settle(uint32_t as);

  std::optional<MemoryFile> file_;  // the sender keeps it open
  Mapping mapping_;
};

}  // namespace lockstep::detail

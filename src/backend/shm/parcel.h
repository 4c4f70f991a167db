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
  // Packs a message. `id` is one that this process uses once: descriptors are
  // used again. Errors: SystemError when there is no room.
  Parcel(const Buffer& message, uint64_t id);
  // Opens the parcel that another process offers. Errors: SystemError when it
  // is gone.
  Parcel(pid_t sender, int fd, size_t bytes, uint64_t id);

  int fd() const { return file_->fd(); }
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

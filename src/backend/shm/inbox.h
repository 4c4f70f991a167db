// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/shm/memory_file.h"
#include "backend/shm/ring.h"

namespace lockstep::detail {

class Hall;

// The rings into which the others write, one each. They lie in a file of this
// rank, so what was sent is here even when its sender is gone; pages exist for
// those who send.
class Inbox {
 public:
  explicit Inbox(int size);

  int fd() const { return file_.fd(); }
  uint64_t cookie() const { return cookie_; }
  Ring& ring(int from) const;
  static size_t offset_of(int from);

 private:
  const uint64_t cookie_ = new_cookie();  // the first page begins with it
  MemoryFile file_;
  Mapping mapping_;
};

// The writing end of one ring in a peer's inbox, opened by the first message.
class Outlet {
 public:
  // Errors: SystemError when there is no room, or the peer is gone.
  Ring& ring(const Hall& hall, int from, int to);

 private:
  Mapping mapping_;
};

}  // namespace lockstep::detail

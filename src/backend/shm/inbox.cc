// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/inbox.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "backend/shm/hall.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

const size_t kRingPages = whole_pages(sizeof(Ring));

size_t inbox_bytes(int size) {
  return kPageBytes + static_cast<size_t>(size) * kRingPages;
}

}  // namespace

Inbox::Inbox(int size)
    : file_(MemoryFile::sparse(inbox_bytes(size))),
      mapping_(file_.map(0, inbox_bytes(size), MemoryFile::Populate::kOnUse)) {
  file_.reserve(0, kPageBytes);
  std::memcpy(mapping_.data(), &cookie_, sizeof(cookie_));
}

size_t Inbox::offset_of(int from) {
  return kPageBytes + static_cast<size_t>(from) * kRingPages;
}

Ring& Inbox::ring(int from) const {
  return *reinterpret_cast<Ring*>(mapping_.data() + offset_of(from));
}

// Reserved before it is announced: the reader may touch it from then on.
Ring& Outlet::ring(const Hall& hall, int from, int to) {
  if (!mapping_) {
    const HallEntry& peer = hall.entry(to);
    MemoryFile file = MemoryFile::of_process(peer.pid, peer.inbox_fd);
    if (!file.begins_with(peer.inbox_cookie)) {
      throw SystemError(fmt::format("rank {} has closed its inbox", to),
                        ESTALE);
    }
    file.reserve(Inbox::offset_of(from), kRingPages);
    mapping_ = file.map(Inbox::offset_of(from), kRingPages,
                        MemoryFile::Populate::kNow);
    hall.ring_open(from, to).store(1, std::memory_order_release);
  }
  return *reinterpret_cast<Ring*>(mapping_.data());
}

}  // namespace lockstep::detail

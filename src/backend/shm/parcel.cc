// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/parcel.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::detail {

// The first page of the file begins with it.
struct Parcel::Header {
  std::atomic<uint32_t> state;  // zero is kOffered
  uint64_t id;
};

Parcel::Header& Parcel::header() const {
  return *reinterpret_cast<Header*>(mapping_.data());
}

Parcel::Parcel(const Buffer& message, uint64_t id) {
  const size_t bytes = whole_pages(kPageBytes + message.bytes());
  check_room(bytes, "for a message");
  file_.emplace(MemoryFile::reserved(bytes));
  mapping_ = file_->map(0, bytes, MemoryFile::Populate::kNow);
  header().id = id;
  std::memcpy(mapping_.data() + kPageBytes, message.data, message.bytes());
}

Parcel::Parcel(pid_t sender, int fd, size_t bytes, uint64_t id)
    : mapping_(MemoryFile::of_process(sender, fd)
                   .map(0, whole_pages(kPageBytes + bytes),
                        MemoryFile::Populate::kNow)) {
  if (header().id != id) throw SystemError("the message is gone", ESTALE);
}

bool Parcel::was_taken() const {
  return header().state.load(std::memory_order_acquire) == kTaken;
}
bool Parcel::take() { return settle(kTaken); }
bool Parcel::withdraw() { return settle(kWithdrawn); }

bool Parcel::settle(uint32_t as) {
  uint32_t offered = kOffered;
  return header().state.compare_exchange_strong(offered, as);
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/parcel.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::detail {

// The first page of the file begins with it.
struct Parcel::Header {
  uint64_t cookie;
  std::atomic<uint32_t> state;  // zero is kOffered
};

Parcel::Header& Parcel::header() const {
  return *reinterpret_cast<Header*>(mapping_.data());
}

Parcel::Parcel(const Buffer& message) {
  const size_t bytes = whole_pages(kPageBytes + message.bytes());
  check_room(bytes, "for a message");
  file_.emplace(MemoryFile::reserved(bytes));
  mapping_ = file_->map(0, bytes, MemoryFile::Populate::kNow);
  header().cookie = new_cookie();
  std::memcpy(mapping_.data() + kPageBytes, message.data, message.bytes());
}

Parcel::Parcel(pid_t sender, int fd, uint64_t cookie, size_t bytes) {
  const MemoryFile file = MemoryFile::of_process(sender, fd);
  if (!file.begins_with(cookie)) {
    throw SystemError("the message is gone", ESTALE);
  }
  mapping_ =
      file.map(0, whole_pages(kPageBytes + bytes), MemoryFile::Populate::kNow);
}

uint64_t Parcel::cookie() const { return header().cookie; }

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

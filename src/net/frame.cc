// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/frame.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kFirstRoom = 4096;
// Buffers that one large message blew up are given back when it is through.
constexpr size_t kKeepBytes = 256 << 10;

}  // namespace

Bytes FrameReader::room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.size() > kKeepBytes) ByteVector().swap(buffer_);
  }
  if (end_ == buffer_.size()) {
    if (begin_ > 0) {  // make room by moving the rest to the front
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == buffer_.size()) {
      buffer_.resize(std::max(kFirstRoom, buffer_.size() * 2));
    }
  }
  return Bytes(buffer_).from(end_);
}

void FrameReader::filled(size_t count) {
  LOCKSTEP_ASSERT(end_ + count <= buffer_.size());
  end_ += count;
}

std::optional<ConstBytes> FrameReader::next() {
  const ConstBytes bytes = pending();
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const size_t length = ByteReader(bytes).u32();
  LOCKSTEP_CHECK(length <= most_bytes_, PeerError,
                 "a message of {} bytes, where at most {} are allowed", length,
                 most_bytes_);
  if (bytes.size() < kLengthBytes + length) return std::nullopt;
  begin_ += kLengthBytes + length;
  return bytes.from(kLengthBytes).first(length);
}

std::optional<ConstBytes> FrameReader::next_raw(size_t count) {
  const ConstBytes bytes = pending();
  if (bytes.size() < count) return std::nullopt;
  begin_ += count;
  return bytes.first(count);
}

void SendQueue::sent(size_t count) {
  sent_ += count;
  LOCKSTEP_ASSERT(sent_ <= bytes_.size());
  if (sent_ < bytes_.size()) {
    // A queue that never runs empty must not keep all that went through it.
    if (sent_ < kKeepBytes || sent_ < bytes_.size() / 2) return;
    bytes_.erase(bytes_.begin(),
                 bytes_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
    return;
  }
  sent_ = 0;
  if (bytes_.capacity() > kKeepBytes) {
    ByteVector().swap(bytes_);
  } else {
    bytes_.clear();
  }
}

}  // namespace lockstep

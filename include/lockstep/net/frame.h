// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/base/bytes.h"

namespace lockstep {

// A frame is a message on a byte stream: its length as four bytes in network
// order, then that many bytes.
//
// FrameReader cuts a stream into frames, however the bytes arrive:
//
//   while (...) {
//     Bytes room = reader.room();
//     reader.filled(socket.recv(room));
//     while (auto frame = reader.next()) handle(*frame);
//   }
//
// Memory follows what has arrived, never what a length claims, and a length
// over the limit is refused before anything is stored for it.
//
// Threads: one at a time.
// Errors:  next() throws PeerError for a frame over the limit.
class FrameReader {
 public:
  explicit FrameReader(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Where the next bytes go, at least one; and how many of them came.
  Bytes room();
  void filled(size_t count);

  // The next whole frame, valid until room() is called.
  std::optional<ConstBytes> next();

  // Exactly `count` bytes that are no frame, for a preamble; same validity.
  std::optional<ConstBytes> next_raw(size_t count);

  size_t buffered() const { return end_ - begin_; }

 private:
  ConstBytes pending() const { return {buffer_.data() + begin_, buffered()}; }

  size_t most_bytes_;
  ByteVector buffer_;
  size_t begin_ = 0;  // what is before was handed out
  size_t end_ = 0;    // what is behind is free
};

// Bytes on their way out of a socket that may not take them all at once.
class SendQueue {
 public:
  // Where messages are appended: complete frames, lengths included.
  ByteVector& tail() { return bytes_; }
  ConstBytes pending() const { return ConstBytes(bytes_).from(sent_); }
  bool empty() const { return sent_ == bytes_.size(); }
  void sent(size_t count);

 private:
  ByteVector bytes_;
  size_t sent_ = 0;
};

}  // namespace lockstep

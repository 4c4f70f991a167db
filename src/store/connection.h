// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/bytes.h"
#include "lockstep/base/deadline.h"
#include "lockstep/net/frame.h"
#include "lockstep/net/socket.h"
#include "store/codec.h"
#include "store/handshake.h"

namespace lockstep::detail {

// The id of a request that is a cancellation: the request it names follows.
inline constexpr uint64_t kCancelId = 0;

// What a message on the wire has around the encoded request or answer: its own
// length as four bytes, and the client's number for the request.
template <class Body>
void append_message(uint64_t id, const Body& body, ByteVector& out) {
  const size_t begin = out.size();
  ByteWriter writer(std::move(out));
  writer.u32(0).u64(id);
  codec::encode(body, writer);
  const size_t length = writer.size() - begin - 4;
  writer.patch_u32(begin, static_cast<uint32_t>(length));
  out = writer.take();
}

inline constexpr size_t kMostMessageBytes = 8 + codec::kMostEncodedBytes;

// The server's side of one connection: its buffers and how far it has come.
struct Connection {
  Connection(uint64_t connection_token, Socket connected,
             const std::string& secret, Deadline until)
      : token(connection_token),
        socket(std::move(connected)),
        peer(to_text(socket.peer())),
        handshake(std::in_place, secret),
        prove_by(until),
        in(kMostMessageBytes) {}

  bool is_stranger() const { return handshake.has_value(); }

  const uint64_t token;
  Socket socket;
  const std::string peer;
  std::optional<handshake::Server> handshake;  // until it has been passed
  Deadline prove_by;
  FrameReader in;
  SendQueue out;
  uint32_t interest = 0;  // what the poller watches for
  bool answered = false;  // has answers that go out at the end of the turn
  bool doomed = false;    // to be closed when nobody uses it any more
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "fuzz/fuzz_input.h"
#include "lockstep/base/error.h"
#include "lockstep/net/socket.h"

namespace lockstep::fuzz {

// The other side has to react within this: more is a hang.
inline Deadline soon() { return Deadline::in(std::chrono::seconds(5)); }

// Makes close() reset the connection, which leaves no TIME_WAIT behind:
// thousands of inputs per second would use up the ports otherwise.
inline void reset_on_close(Socket& socket) {
  const linger now{1, 0};
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

// Reads what has come without waiting, and gives it to `handle`. False once
// the other side has closed or reset.
template <class Handle>
bool read_now(Socket& socket, Handle handle) {
  std::byte room[4096];
  try {
    while (const auto got = socket.recv_some({room, sizeof room})) {
      if (*got == 0) return false;
      handle(ConstBytes(room, *got));
    }
    return true;
  } catch (const PeerError&) {
    return false;
  }
}

// Sends in pieces of `cut` bytes (0: in one). Reads only when the other side
// takes no more, so that answers pile up there, but never blocks for good.
// False once the other side has closed.
template <class Handle>
bool send_cut(Socket& socket, ConstBytes bytes, size_t cut, Handle handle) {
  const auto deadline = soon();
  while (!bytes.empty()) {
    const size_t size = cut == 0 ? bytes.size() : std::min(cut, bytes.size());
    try {
      if (const auto sent = socket.send_some(bytes.first(size))) {
        bytes = bytes.from(*sent);
        continue;
      }
    } catch (const PeerError&) {
      return false;
    }
    require(socket.wait_for(POLLIN | POLLOUT, deadline), "it takes data");
    if (!read_now(socket, handle)) return false;
  }
  return true;
}

// Says that no more will be sent, and reads until the other side closes.
template <class Handle>
void finish(Socket& socket, Handle handle) {
  const auto deadline = soon();
  ::shutdown(socket.fd(), SHUT_WR);
  while (read_now(socket, handle)) {
    require(socket.wait_for(POLLIN, deadline), "it closes after our end");
  }
}

}  // namespace lockstep::fuzz

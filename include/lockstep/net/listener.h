// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/net/address.h"
#include "lockstep/net/socket.h"

namespace lockstep {

// A TCP port that accepts connections, on the one address it is given.
//
// Errors: SystemError that names the address; for a port in use it says so
//         and how to find who has it.
class Listener {
 public:
  // Port 0 picks a free one; address() tells it.
  explicit Listener(const SocketAddress& address, int backlog = 4096);

  // Takes over a descriptor that listens already: no race for the port.
  // UsageError when it does not listen.
  static Listener adopt(Fd fd);

  int fd() const { return fd_.get(); }
  SocketAddress address() const;

  // The next connection if one is waiting. Lack of descriptors or memory is a
  // SystemError; a connection that is gone again is passed over.
  std::optional<Socket> accept_now();

  // Waits for one. TimeoutError.
  Socket accept(Deadline deadline);

 private:
  explicit Listener(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// The longest queue of connections the kernel keeps (net.core.somaxconn).
int system_backlog();

}  // namespace lockstep

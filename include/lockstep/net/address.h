// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

// A host and a port as people write them: "node7:29500", "10.0.0.1:80",
// "[::1]:29500".
struct Address {
  std::string host;
  uint16_t port = 0;

  // Errors: UsageError that says what is missing.
  static Address parse(const std::string& text);
};

std::string to_text(const Address& address);

// A numeric address the kernel understands.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t size);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage_);
  }
  socklen_t size() const { return size_; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  bool is_loopback() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

std::string to_text(const SocketAddress& address);

// Looks a host up, in the order the system prefers. A numeric host needs no
// look-up. Errors: PeerError that names the host and the resolver's reason,
// TimeoutError when the resolver does not answer in time.
std::vector<SocketAddress> resolve(const Address& address, Deadline deadline);

}  // namespace lockstep

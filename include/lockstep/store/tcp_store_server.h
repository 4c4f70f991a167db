// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/net/address.h"

namespace lockstep {

struct TcpStoreServerOptions {
  // How many ranks are expected; when the system's queue of connections is
  // shorter, a warning says so. 0: not known.
  int world_size = 0;
  // A connection that has not proved the secret by then is closed.
  std::chrono::milliseconds handshake_time{5000};
  // So many may be at it at once; then the one that came first is closed.
  size_t most_strangers = 1024;
};

// Serves one store over TCP, on a thread of its own. The launcher runs it, and
// a rank can run one too.
//
//   TcpStoreServer server("127.0.0.1", 0, secret);
//   ... TcpStore store("127.0.0.1", server.port(), secret);
//
// It listens on the given address only. Every client first proves that it
// knows `secret`; an empty secret is allowed on loopback alone. What strangers
// send is bounded in size, number and time, and costs nobody else.
//
// Threads:   all methods from any thread.
// Ownership: the destructor closes every connection, joins the thread and
//            leaves no descriptor; clients then get PeerError.
// Errors:    the constructor throws UsageError for an address beyond loopback
//            without a secret, SystemError that names a port in use, PeerError
//            for a host that does not resolve.
class TcpStoreServer {
 public:
  // Port 0 picks a free one.
  TcpStoreServer(const std::string& host, uint16_t port, std::string secret,
                 TcpStoreServerOptions options = {});

  // Serves on a descriptor that listens already: no race for the port.
  TcpStoreServer(Fd listening, std::string secret,
                 TcpStoreServerOptions options = {});
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  uint16_t port() const;
  SocketAddress address() const;

  // What it holds at the moment: for tests and for `lockstep info`.
  struct Load {
    size_t clients = 0;    // that have proved the secret
    size_t strangers = 0;  // that have not yet
    size_t waiting = 0;    // requests that cannot be answered yet
  };
  Load load() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// A secret nobody can guess: 64 hexadecimal digits.
std::string make_secret();

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/store/store.h"

namespace lockstep {

struct TcpStoreOptions {
  // How long the constructor tries to reach the server: it may start later.
  Deadline::Duration connect_timeout = std::chrono::seconds(300);
  // Store::timeout() of the new handle.
  Deadline::Duration timeout = std::chrono::seconds(300);
};

// A Store served by a TcpStoreServer, over one connection that carries any
// number of requests at once.
//
// The constructor tries again with growing pauses until the server is there,
// and both sides prove that they know the secret. It has no thread of its own:
// whoever waits reads for all who wait.
//
// A call that times out is taken back at the server. One exception is told
// here: a pop() whose server does not answer at all may have taken a value
// that nobody gets.
//
// Errors: as Store; and from the constructor TimeoutError with host, port,
//         tries and the last reason, PeerError for a wrong secret or a server
//         that is none of ours.
class TcpStore : public Store {
 public:
  TcpStore(const std::string& host, uint16_t port, const std::string& secret,
           TcpStoreOptions options = {});
  ~TcpStore() override;

 private:
  StoreReply execute(StoreRequest request, Deadline deadline) override;

  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/base/bytes.h"
#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/net/address.h"

namespace lockstep {

// A connected TCP socket on which nothing waits without a deadline.
//
//   auto socket = Socket::connect(resolve(address, deadline), deadline);
//   socket.send_all(request, deadline);
//   socket.recv_exactly(reply, deadline);
//
// It sends at once (no Nagle delay) and keeps the connection probed, so that a
// host that vanished is noticed within half a minute.
//
// Threads: one thread may send while another receives; nothing else.
// Errors:  PeerError when the other side closed or reset, TimeoutError when
//          the deadline passed, SystemError for the rest. The socket is of no
//          more use after any of them.
class Socket {
 public:
  Socket() = default;
  // Takes over a connected descriptor.
  explicit Socket(Fd fd);

  // Tries the addresses in turn; the error tells of the last.
  static Socket connect(const std::vector<SocketAddress>& addresses,
                        Deadline deadline);

  int fd() const { return fd_.get(); }
  bool is_open() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }
  // Ends both directions and wakes whoever polls, without freeing the number.
  void shutdown() noexcept;

  // Lets data wait for a peer that lives and does not read, as a stopped
  // process does, as long as it may take: else half a minute.
  void allow_slow_reader();

  SocketAddress peer() const;
  SocketAddress local() const;

  void send_all(ConstBytes bytes, Deadline deadline);
  void recv_exactly(Bytes bytes, Deadline deadline);

  // What can be done without waiting: how many bytes, or nothing when it would
  // block. recv_some gives 0 at the end of the stream.
  std::optional<size_t> send_some(ConstBytes bytes);
  std::optional<size_t> recv_some(Bytes bytes);

  // Waits for bytes and takes what has come: as recv_some, and nothing when the
  // deadline passed first.
  std::optional<size_t> recv_by(Bytes bytes, Deadline deadline);

  // False when the deadline passed first. `events` as for poll(2); returns
  // early on an error of the connection, which the next call reports.
  bool wait_for(short events, Deadline deadline) const;

 private:
  Fd fd_;
};

// Waits until one of `events` or an error is there; 0 when the deadline passed.
short poll_one(int fd, short events, Deadline deadline);

}  // namespace lockstep

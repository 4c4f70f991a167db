// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/listener.h"

#include <netinet/in.h>
#include <poll.h>

#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

Listener::Listener(const SocketAddress& address, int backlog)
    : fd_(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                   0)) {
  const auto fail = [&](const std::string& what) {
    throw SystemError(fmt::format("{} {}", what, to_text(address)), errno);
  };
  if (!fd_) fail("cannot create a socket for");
  const int on = 1;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd_.get(), address.get(), address.size()) != 0 ||
      ::listen(fd_.get(), backlog) != 0) {
    if (errno == EADDRINUSE) {
      fail(
          fmt::format("port {} is in use (ss -ltnp shows by whom; port 0 "
                      "picks a free one): cannot listen on",
                      address.port()));
    }
    fail("cannot listen on");
  }
}

Listener Listener::adopt(Fd fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) !=
          0 ||
      listening == 0) {
    throw UsageError(fmt::format(
        "descriptor {} is not a listening socket; call listen(2) on it first",
        fd.get()));
  }
  set_nonblocking(fd.get());
  return Listener(std::move(fd));
}

SocketAddress Listener::address() const {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd(), reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    throw SystemError("cannot read the address of a listener", errno);
  }
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

std::optional<Socket> Listener::accept_now() {
  for (;;) {
    Fd fd(
        ::accept4(this->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      try {
        return Socket(std::move(fd));
      } catch (const SystemError&) {
        continue;  // reset by the peer before we could set its options
      }
    }
    switch (errno) {
      case EAGAIN:
        return std::nullopt;
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
      case EBADF:
      case EINVAL:
        throw SystemError(
            fmt::format("cannot accept on {}", to_text(address())), errno);
      default:
        break;  // this one connection failed on its way: the next
    }
  }
}

Socket Listener::accept(Deadline deadline) {
  for (;;) {
    if (auto socket = accept_now()) return std::move(*socket);
    LOCKSTEP_CHECK(poll_one(fd(), POLLIN, deadline) != 0, TimeoutError,
                   "nobody connected to {}", to_text(address()));
  }
}

int system_backlog() {
  std::ifstream file("/proc/sys/net/core/somaxconn");
  int backlog = 0;
  return file >> backlog ? backlog : SOMAXCONN;
}

}  // namespace lockstep

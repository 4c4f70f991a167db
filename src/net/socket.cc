// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The longest that one recv(2) waits. A wait with less time left than that asks
// poll(2) first, which is exact; see recv_by.
constexpr std::chrono::seconds kSlice(1);

template <class Value>
void set_option(int fd, int level, int name, Value value) {
  if (::setsockopt(fd, level, name, &value, sizeof value) != 0) {
    throw SystemError("cannot set a socket option", errno);
  }
}

// Calls that must not wait say so themselves, with MSG_DONTWAIT.
void set_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
      ::fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
    throw SystemError("cannot make a socket blocking", errno);
  }
}

void prepare(int fd) {
  set_blocking(fd);
  set_option(fd, SOL_SOCKET, SO_RCVTIMEO, timeval{kSlice.count(), 0});
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Probe an idle connection after 10 s, give it up after 4 probes of 5 s, and
  // unacknowledged data after 30 s.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
}

[[noreturn]] void throw_connection_error(const char* what, int error) {
  const SystemError reason(what, error);
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
      throw PeerError(reason.what());
    default:
      throw reason;
  }
}

Socket connect_one(const SocketAddress& address, Deadline deadline) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                 0));
  if (!fd) throw SystemError("cannot create a socket", errno);
  int error = 0;
  if (::connect(fd.get(), address.get(), address.size()) != 0) {
    error = errno;
    // EINTR: the connection goes on being made, as with EINPROGRESS.
    if (error == EINPROGRESS || error == EINTR) {
      if (poll_one(fd.get(), POLLOUT, deadline) == 0) {
        throw TimeoutError(fmt::format("no answer from {}", to_text(address)));
      }
      socklen_t size = sizeof error;
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) {
    throw_connection_error(
        fmt::format("connecting to {}", to_text(address)).c_str(), error);
  }
  return Socket(std::move(fd));
}

template <class Function>
SocketAddress name_of(int fd, Function function) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (function(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {};
  }
  return {reinterpret_cast<const sockaddr*>(&storage), size};
}

}  // namespace

short poll_one(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int count = ::poll(&entry, 1, deadline.poll_timeout());
    if (count > 0) return entry.revents;
    if (count < 0 && errno != EINTR) throw SystemError("poll failed", errno);
    if (deadline.passed()) return 0;
  }
}

Socket::Socket(Fd fd) : fd_(std::move(fd)) { prepare(fd_.get()); }

Socket Socket::connect(const std::vector<SocketAddress>& addresses,
                       Deadline deadline) {
  LOCKSTEP_CHECK(!addresses.empty(), UsageError, "no address to connect to");
  for (size_t i = 0; i + 1 < addresses.size(); ++i) {
    try {
      return connect_one(addresses[i], deadline);
    } catch (const PeerError&) {
      // A host with several addresses may listen on one of them only.
    }
  }
  return connect_one(addresses.back(), deadline);
}

void Socket::shutdown() noexcept { ::shutdown(fd_.get(), SHUT_RDWR); }

void Socket::allow_slow_reader() {
  set_option(fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

SocketAddress Socket::peer() const { return name_of(fd(), ::getpeername); }
SocketAddress Socket::local() const { return name_of(fd(), ::getsockname); }

bool Socket::wait_for(short events, Deadline deadline) const {
  return poll_one(fd(), events, deadline) != 0;
}

std::optional<size_t> Socket::send_some(ConstBytes bytes) {
  for (;;) {
    const ssize_t sent =
        ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) throw_connection_error("sending", errno);
  }
}

std::optional<size_t> Socket::recv_some(Bytes bytes) {
  for (;;) {
    const ssize_t got = ::recv(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) throw_connection_error("receiving", errno);
  }
}

// A wait that is long is done by recv itself, a slice at a time: one system
// call where poll and recv are two, which is most of what an answer costs.
std::optional<size_t> Socket::recv_by(Bytes bytes, Deadline deadline) {
  while (deadline.remaining() > kSlice) {
    const ssize_t got = ::recv(fd(), bytes.data(), bytes.size(), 0);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      throw_connection_error("receiving", errno);
    }
  }
  if (!wait_for(POLLIN, deadline)) return std::nullopt;
  return recv_some(bytes);
}

void Socket::send_all(ConstBytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (auto sent = send_some(bytes)) {
      bytes = bytes.from(*sent);
    } else if (!wait_for(POLLOUT, deadline)) {
      throw TimeoutError(fmt::format("{} took no more data; {} bytes unsent",
                                     to_text(peer()), bytes.size()));
    }
  }
}

void Socket::recv_exactly(Bytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (auto got = recv_some(bytes)) {
      LOCKSTEP_CHECK(*got > 0, PeerError, "{} closed the connection",
                     to_text(peer()));
      bytes = bytes.from(*got);
    } else if (!wait_for(POLLIN, deadline)) {
      throw TimeoutError(fmt::format("{} sent no more data; {} bytes missing",
                                     to_text(peer()), bytes.size()));
    }
  }
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

Address Address::parse(const std::string& text) {
  const auto complain = [&](const char* what) {
    return UsageError(fmt::format(
        "'{}' is not an address: {}; write HOST:PORT or [IPV6]:PORT", text,
        what));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw complain("the port is missing");
  Address address;
  address.host = text.substr(0, colon);
  const bool bracketed = address.host.size() >= 2 &&
                         address.host.front() == '[' &&
                         address.host.back() == ']';
  if (bracketed) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    throw complain("an IPv6 host needs brackets");
  }
  if (address.host.empty()) throw complain("the host is missing");
  const char* end = text.data() + text.size();
  const auto [parsed, error] =
      std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc() || parsed != end) {
    throw complain("the port is not a number from 0 to 65535");
  }
  return address;
}

std::string to_text(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return fmt::format(v6 ? "[{}]:{}" : "{}:{}", address.host, address.port);
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size)
    : size_(size) {
  LOCKSTEP_ASSERT(size <= sizeof storage_);
  std::memcpy(&storage_, address, size);
}

uint16_t SocketAddress::port() const {
  if (family() == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  }
  if (family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  }
  return 0;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage_);
    return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
  }
  if (family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) &&
            v6->sin6_addr.s6_addr[12] == 127);
  }
  return family() == AF_UNIX;
}

std::string to_text(const SocketAddress& address) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address.get(), address.size(), host, sizeof host, nullptr,
                    0, NI_NUMERICHOST) != 0) {
    return "unknown address";
  }
  return to_text(Address{host, address.port()});
}

}  // namespace lockstep

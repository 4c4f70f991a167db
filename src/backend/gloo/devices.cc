// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/devices.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/log.h"
#include "lockstep/net/address.h"

namespace lockstep {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool is_ipv4 = false;
};

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  if (inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr)
    return "";
  return text.data();
}

// Those that are up, with each address others may connect to as it is.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw SystemError("cannot list the network interfaces", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(
      list, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    // An address of the link alone means nothing without its interface.
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(
            &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr)) {
      continue;
    }
    found.push_back({at->ifa_name, numeric(at->ifa_addr), family == AF_INET});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Interface& a, const Interface& b) {
                     return a.is_ipv4 && !b.is_ipv4;
                   });
  return found;
}

bool can_bind(const SocketAddress& address) {
  const Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && ::bind(fd.get(), address.get(), address.size()) == 0;
}

// The first address of `host` that is one of ours, and that others can use if
// that is asked for; empty when there is none.
std::string own_address_of(const std::string& host, bool for_others) {
  const auto deadline = Deadline::in(std::chrono::seconds(5));
  for (const auto& address : resolve({host, 0}, deadline)) {
    if (for_others && address.is_loopback()) continue;
    if (can_bind(address)) return numeric(address.get());
  }
  return "";
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace

GlooDevice gloo_device_of_interface(const std::string& name) {
  const auto all = interfaces();
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const Interface& one) { return one.name == name; });
  if (found != all.end()) return {found->address};
  std::vector<std::string> names;
  for (const auto& one : all) {
    if (names.empty() || names.back() != one.name) names.push_back(one.name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  throw UsageError(
      fmt::format("there is no network interface '{}' that is up and has an "
                  "address; there are: {}",
                  name, fmt::join(names, ", ")));
}

GlooDevice gloo_device_of_host(const std::string& host) {
  std::string address;
  try {
    address = own_address_of(host, false);
  } catch (const PeerError& error) {
    throw UsageError(fmt::format("cannot use '{}': {}", host, error.message()));
  }
  if (!address.empty()) return {address};
  std::vector<std::string> own;
  for (const auto& one : interfaces()) own.push_back(one.address);
  throw UsageError(fmt::format("'{}' is no address of this host; those are: {}",
                               host, fmt::join(own, ", ")));
}

GlooDevice default_gloo_device() {
  const std::string name = detail::host_name();
  try {
    const std::string address = own_address_of(name, true);
    if (!address.empty()) return {address};
  } catch (const Error&) {
    // The name means nothing here.
  }
  static std::once_flag warned;
  std::call_once(warned, [&] {
    log_warn(fmt::format(
        "this host's name, '{}', is no address that others could use: backend "
        "'gloo' takes loopback, and ranks of other hosts cannot reach it; set "
        "LOCKSTEP_SOCKET_IFNAME to a network interface",
        name));
  });
  return {"127.0.0.1"};
}

namespace detail {

std::vector<GlooDevice> chosen_devices(const GlooOptions& options) {
  if (!options.devices.empty()) return options.devices;
  auto list = env::text("LOCKSTEP_SOCKET_IFNAME");
  if (!list) list = env::text("GLOO_SOCKET_IFNAME");
  std::vector<GlooDevice> devices;
  for (const auto& name : names_in(list.value_or(""))) {
    devices.push_back(gloo_device_of_interface(name));
  }
  if (devices.empty()) devices.push_back(default_gloo_device());
  return devices;
}

}  // namespace detail
}  // namespace lockstep

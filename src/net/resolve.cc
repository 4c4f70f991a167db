// SPDX-License-Identifier: Apache-2.0
#include <netdb.h>

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/future.h"
#include "lockstep/base/thread.h"
#include "lockstep/net/address.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

std::vector<SocketAddress> take(addrinfo* list) {
  std::vector<SocketAddress> addresses;
  for (addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
  }
  ::freeaddrinfo(list);
  return addresses;
}

// Nothing when only a numeric host was asked for and this is a name.
std::optional<std::vector<SocketAddress>> ask_system(const Address& address,
                                                     int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int status =
      ::getaddrinfo(address.host.c_str(),
                    fmt::format("{}", address.port).c_str(), &hints, &list);
  if (status == 0) return take(list);
  if ((flags & AI_NUMERICHOST) != 0) return std::nullopt;
  throw PeerError(fmt::format("host '{}' does not resolve: {}; check the name",
                              address.host, ::gai_strerror(status)));
}

// One look-up on a thread of its own: the system's resolver has its own idea
// of time and cannot be interrupted.
struct Lookup {
  explicit Lookup(const Address& address)
      : result(promise.future()), thread("lockstep-lookup", [this, address] {
          try {
            promise.set_value(*ask_system(address, AI_ADDRCONFIG));
          } catch (...) {
            promise.set_error(std::current_exception());
          }
        }) {}

  Promise<std::vector<SocketAddress>> promise;
  Future<std::vector<SocketAddress>> result;
  Thread thread;
};

// Look-ups that were given up while the resolver still ran them: each is
// joined by a later one that finds it ended, or goes with the process.
class Abandoned {
 public:
  void add(std::unique_ptr<Lookup> lookup) {
    std::lock_guard<std::mutex> lock(mutex_);
    lookups_.push_back(std::move(lookup));
  }
  void join_ended() {
    std::lock_guard<std::mutex> lock(mutex_);
    lookups_.remove_if([](const auto& old) { return old->result.is_ready(); });
  }

 private:
  std::mutex mutex_;
  std::list<std::unique_ptr<Lookup>> lookups_ LOCKSTEP_GUARDED_BY(mutex_);
};

Abandoned& abandoned() {
  static auto* lookups = new Abandoned;
  return *lookups;
}

std::vector<SocketAddress> look_up(const Address& address, Deadline deadline) {
  abandoned().join_ended();
  const auto allowed = deadline.remaining();
  auto lookup = std::make_unique<Lookup>(address);
  const auto result = lookup->result;
  if (result.wait(deadline)) return result.get(deadline);
  abandoned().add(std::move(lookup));
  throw TimeoutError(fmt::format(
      "looking up host '{}' took longer than {}; check the name and the name "
      "server",
      address.host, to_text(allowed)));
}

}  // namespace

std::vector<SocketAddress> resolve(const Address& address, Deadline deadline) {
  LOCKSTEP_TRACE_SCOPE("resolve", "net");
  const int numeric = AI_NUMERICHOST | AI_NUMERICSERV;
  if (auto addresses = ask_system(address, numeric)) return *addresses;
  return look_up(address, deadline);
}

}  // namespace lockstep

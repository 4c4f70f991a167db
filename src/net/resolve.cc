// SPDX-License-Identifier: Apache-2.0
#include <netdb.h>

#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/thread.h"
#include "lockstep/net/address.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

addrinfo stream_hints(int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return hints;
}

std::vector<SocketAddress> take(addrinfo* list) {
  std::vector<SocketAddress> addresses;
  for (addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
  }
  ::freeaddrinfo(list);
  return addresses;
}

// One look-up on glibc's resolver threads, which is the only way to look up
// with a deadline. The resolver reads and writes the strings and the control
// block until it is done, so they live on the heap.
struct Lookup {
  explicit Lookup(const Address& address)
      : host(address.host),
        service(fmt::format("{}", address.port)),
        hints(stream_hints(AI_ADDRCONFIG)) {
    block.ar_name = host.c_str();
    block.ar_service = service.c_str();
    block.ar_request = &hints;
  }
  ~Lookup() {
    if (block.ar_result != nullptr) ::freeaddrinfo(block.ar_result);
  }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  bool is_running() const {
    // gai_error takes a pointer to non-const, but only reads.
    return ::gai_error(const_cast<gaicb*>(&block)) == EAI_INPROGRESS;
  }

  std::string host;
  std::string service;
  addrinfo hints;
  gaicb block{};
};

// Look-ups that were given up while the resolver still ran them; each is freed
// by a later call that finds it ended.
void keep_until_done(std::unique_ptr<Lookup> lookup) {
  static std::mutex mutex;
  static auto* abandoned = new std::list<std::unique_ptr<Lookup>>;
  std::lock_guard<std::mutex> lock(mutex);
  abandoned->remove_if([](const auto& old) { return !old->is_running(); });
  abandoned->push_back(std::move(lookup));
}

std::vector<SocketAddress> look_up(const Address& address, Deadline deadline) {
  auto lookup = std::make_unique<Lookup>(address);
  gaicb* blocks[] = {&lookup->block};
  const auto allowed = deadline.remaining();
  int status = ::getaddrinfo_a(GAI_NOWAIT, blocks, 1, nullptr);
  if (status == 0) {
    while (lookup->is_running() && !deadline.passed()) {
      const auto left =
          std::chrono::ceil<std::chrono::microseconds>(deadline.remaining())
              .count();
      timespec time{left / 1000000, left % 1000000 * 1000};
      ::gai_suspend(blocks, 1, &time);
    }
    if (lookup->is_running() && ::gai_cancel(&lookup->block) != EAI_CANCELED) {
      keep_until_done(std::move(lookup));
      throw TimeoutError(fmt::format(
          "looking up host '{}' took longer than {}; check the name and the "
          "name server",
          address.host, to_text(allowed)));
    }
    status = ::gai_error(&lookup->block);
  }
  if (status != 0) {
    throw PeerError(
        fmt::format("host '{}' does not resolve: {}; check the name",
                    address.host, ::gai_strerror(status)));
  }
  return take(std::exchange(lookup->block.ar_result, nullptr));
}

}  // namespace

std::vector<SocketAddress> resolve(const Address& address, Deadline deadline) {
  LOCKSTEP_TRACE_SCOPE("resolve", "net");
  addrinfo* numeric = nullptr;
  const addrinfo hints = stream_hints(AI_NUMERICHOST | AI_NUMERICSERV);
  if (::getaddrinfo(address.host.c_str(),
                    fmt::format("{}", address.port).c_str(), &hints,
                    &numeric) == 0) {
    return take(numeric);
  }
  return look_up(address, deadline);
}

}  // namespace lockstep

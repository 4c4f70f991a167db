// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/store_url.h"

#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/store/file_store.h"
#include "lockstep/store/hash_store.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"

namespace lockstep {
namespace {

TcpStoreOptions tcp_options(const StoreUrlOptions& options) {
  TcpStoreOptions tcp;
  tcp.connect_timeout = options.timeout;
  return tcp;
}

// To reach the server of this very process takes no time, or is impossible.
TcpStoreOptions own_options() {
  TcpStoreOptions tcp;
  tcp.connect_timeout = std::chrono::seconds(5);
  return tcp;
}

std::shared_ptr<Store> open_file(const std::string& url,
                                 const std::string& path,
                                 const StoreUrlOptions& options) {
  LOCKSTEP_CHECK(path.size() > 1 && path[0] == '/', UsageError,
                 "store '{}' has no path; write file:///absolute/path", url);
  FileStoreOptions file;
  file.run_id = options.run_id;
  file.expected_ranks = options.expected_ranks;
  file.open_timeout = options.timeout;
  return std::make_shared<FileStore>(path, file);
}

}  // namespace

std::shared_ptr<Store> open_store(const std::string& url,
                                  const StoreUrlOptions& options) {
  const size_t end = url.find("://");
  const std::string scheme = url.substr(0, end);
  const std::string rest = end == std::string::npos ? "" : url.substr(end + 3);
  if (scheme == "tcp" && end != std::string::npos) {
    const Address address = Address::parse(rest);
    LOCKSTEP_CHECK(address.port != 0, UsageError,
                   "store '{}' has no port; write tcp://host:port", url);
    return std::make_shared<TcpStore>(address.host, address.port,
                                      options.secret, tcp_options(options));
  }
  if (scheme == "file" && end != std::string::npos) {
    return open_file(url, rest, options);
  }
  if (scheme == "hash" && end != std::string::npos) {
    return std::make_shared<HashStore>();
  }
  throw UsageError(fmt::format(
      "'{}' names no store; there are tcp://host:port, file:///path and "
      "hash://",
      url));
}

std::shared_ptr<Store> serve_store(Address& address,
                                   const StoreUrlOptions& options) {
  struct Served {
    Served(const Address& at, const StoreUrlOptions& with)
        : server(at.host, at.port, with.secret),
          client(at.host, server.port(), with.secret, own_options()),
          linger(with.linger) {}
    ~Served() {
      // Others may be about to ask a last time.
      const auto deadline = Deadline::in(linger);
      const auto others = [&] {
        const auto load = server.load();
        return load.clients + load.strangers > 1;
      };
      while (others() && !deadline.passed()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    TcpStoreServer server;
    TcpStore client;
    const Deadline::Duration linger;
  };
  auto served = std::make_shared<Served>(address, options);
  address.port = served->server.port();
  return {served, &served->client};
}

}  // namespace lockstep

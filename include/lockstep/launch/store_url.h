// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/net/address.h"
#include "lockstep/store/store.h"

namespace lockstep {

struct StoreUrlOptions {
  std::string secret;      // tcp
  std::string run_id;      // file
  int expected_ranks = 0;  // file: the last one removes it
  Deadline::Duration timeout = std::chrono::seconds(300);  // to open it
  Deadline::Duration linger = std::chrono::seconds(30);    // see serve_store
};

// Opens the store that a URL names:
//
//   tcp://host:port    a TcpStoreServer there
//   file:///path       a FileStore
//   hash://            a new HashStore, for ranks that are threads
//
// Errors: UsageError for an unknown scheme, a missing port or path; and what
//         the store itself throws.
std::shared_ptr<Store> open_store(const std::string& url,
                                  const StoreUrlOptions& options = {});

// A server at `address` and a client of it, which live as long as the Store.
// Port 0 picks a free one and writes it into `address`. The end of the Store
// waits until the other clients have left, for `options.linger` at most.
std::shared_ptr<Store> serve_store(Address& address,
                                   const StoreUrlOptions& options);

}  // namespace lockstep

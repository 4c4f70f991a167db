// SPDX-License-Identifier: Apache-2.0
#include "launch/rank0_store.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {

using namespace std::chrono_literals;

namespace {

constexpr int kPortsTried = 8;

// Tells this job's store from another's that happens to be near.
std::string job_of(const Place& place) {
  return fmt::format("{}/{}/{}/{}", place.job_id, place.master_port,
                     place.restart_count, place.size);
}

std::vector<Address> candidates(const Place& place) {
  const auto given = env::integer("LOCKSTEP_PORT");
  LOCKSTEP_CHECK(given || place.master_port > 0, UsageError,
                 "{} does not say at which port rank 0 serves the store; set "
                 "LOCKSTEP_PORT or MASTER_PORT",
                 to_text(place.starter));
  const int64_t first = given.value_or(place.master_port + 1);
  LOCKSTEP_CHECK(first > 0 && first <= 65535, UsageError,
                 "port {} for the store is out of range; set LOCKSTEP_PORT",
                 first);
  const int64_t tries = given || !place.is_one_host()
                            ? 1
                            : std::min<int64_t>(kPortsTried, 65536 - first);
  std::vector<Address> addresses;
  for (int i = 0; i < tries; ++i) {
    addresses.push_back({place.is_one_host() ? "127.0.0.1" : place.master_host,
                         static_cast<uint16_t>(first + i)});
  }
  return addresses;
}

std::shared_ptr<Store> serve_at_one_of(std::vector<Address> addresses,
                                       const std::string& job,
                                       const StoreUrlOptions& options) {
  for (auto& address : addresses) {
    try {
      auto store = serve_store(address, options);
      store->set("job", job);
      return store;
    } catch (const SystemError& error) {
      const bool last = &address == &addresses.back();
      if (error.error_number() != EADDRINUSE || last) throw;
    }
  }
  return nullptr;
}

// The store at `address` if it is there and this job's.
std::shared_ptr<Store> try_one(const Address& address, const std::string& job,
                               StoreUrlOptions options) {
  options.timeout = 100ms;
  try {
    auto store = open_store("tcp://" + to_text(address), options);
    if (to_string(store->get("job", Deadline::in(1s))) == job) return store;
  } catch (const TimeoutError&) {
  } catch (const PeerError&) {
  }
  return nullptr;
}

std::shared_ptr<Store> find_at_one_of(const std::vector<Address>& addresses,
                                      const std::string& job,
                                      const StoreUrlOptions& options) {
  const auto deadline = Deadline::in(options.timeout);
  while (!deadline.passed()) {
    for (const auto& address : addresses) {
      if (auto store = try_one(address, job, options)) return store;
    }
  }
  throw TimeoutError(fmt::format(
      "rank 0 serves no store at {} or the {} ports after it; is it running? "
      "LOCKSTEP_PORT chooses another port",
      to_text(addresses.front()), addresses.size() - 1));
}

}  // namespace

std::shared_ptr<Store> open_rank0_store(const Place& place,
                                        const StoreUrlOptions& options) {
  LOCKSTEP_CHECK(place.is_one_host() || !place.master_host.empty(), UsageError,
                 "the ranks run on several hosts, and {} does not say where "
                 "rank 0 is; set MASTER_ADDR and MASTER_PORT, or "
                 "LOCKSTEP_STORE",
                 to_text(place.starter));
  LOCKSTEP_CHECK(place.is_one_host() || !options.secret.empty(), UsageError,
                 "the ranks run on several hosts and need a secret: put one "
                 "in a file that only you can read, on every host, and name "
                 "it in LOCKSTEP_SECRET_FILE");
  const auto addresses = candidates(place);
  const std::string job = job_of(place);
  if (place.rank == 0) return serve_at_one_of(addresses, job, options);
  if (addresses.size() > 1) return find_at_one_of(addresses, job, options);
  return open_store("tcp://" + to_text(addresses.front()), options);
}

}  // namespace lockstep::detail

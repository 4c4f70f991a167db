// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/base/deadline.h"
#include "lockstep/store/request.h"

namespace lockstep {

// A Store is the small shared dictionary in which ranks find each other.
//
// Rank 0 writes an address, the others wait for it; a counter hands out ids.
// It is for rendezvous, not for data: keep values under a few kilobytes.
//
//   store.set("addr/0", address);
//   auto peer = to_string(store.get("addr/1", Deadline::in(30s)));
//   int64_t ticket = store.add("tickets", 1);
//
// Keys and values are any bytes; the limits are in request.h. Calls that may
// wait take a deadline; without one they use timeout(), 300 s unless set.
//
// Threads:   every method from any thread; a thread that waits blocks no other
//            call on the same handle.
// Ownership: stores are shared; a PrefixStore keeps its parent alive.
// Errors:    TimeoutError names the keys that did not appear and the time;
//            UsageError for a value that is no number or a size over a limit;
//            PeerError when the server is gone, then from every call;
//            SystemError when the system fails us. After any but PeerError the
//            handle is usable, and a failed wait has changed nothing.
class Store {
 public:
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Sets `key`, replacing any value, and wakes all who wait for it.
  void set(const std::string& key, ConstBytes value);

  // Sets all or, when the lists differ in length, nothing.
  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<ByteVector>& values);

  // Returns the value of `key`, waiting until it exists.
  ByteVector get(const std::string& key) { return get(key, by_default()); }
  ByteVector get(const std::string& key, Deadline deadline);

  // The same for all `keys`, in their order.
  std::vector<ByteVector> multi_get(const std::vector<std::string>& keys) {
    return multi_get(keys, by_default());
  }
  std::vector<ByteVector> multi_get(const std::vector<std::string>& keys,
                                    Deadline deadline);

  // Waits until all `keys` exist, whichever call makes them.
  void wait(const std::vector<std::string>& keys) { wait(keys, by_default()); }
  void wait(const std::vector<std::string>& keys, Deadline deadline);

  // Whether all `keys` exist now.
  bool check(const std::vector<std::string>& keys);

  // Adds `delta` to the counter `key` (absent counts as 0), wakes all who wait
  // for it, and returns the new value. Atomic across ranks. Counters are
  // decimal text: after add("k", 6), get("k") is "6". A value that is no
  // number, or a sum that does not fit, is a UsageError and changes nothing.
  int64_t add(const std::string& key, int64_t delta);

  // Puts `value` at the end of what `key` holds (absent counts as empty).
  void append(const std::string& key, ConstBytes value);

  // Stores `desired` if `key` holds `expected`, where nullopt means "is
  // absent". Says whether it stored, and what is there now.
  struct CompareSetResult {
    bool stored;
    std::optional<ByteVector> value;
  };
  CompareSetResult compare_set(const std::string& key,
                               std::optional<ConstBytes> expected,
                               ConstBytes desired);

  // True when something was deleted.
  bool delete_key(const std::string& key);

  // How many keys there are, of those that begin with `prefix`. Queues do not
  // count.
  int64_t num_keys(const std::string& prefix = "");

  // Queues: first in, first out, each value to exactly one popper. They live
  // beside the keys; an empty queue and no queue are the same.
  void push(const std::string& queue, ConstBytes value);
  ByteVector pop(const std::string& queue) { return pop(queue, by_default()); }
  ByteVector pop(const std::string& queue, Deadline deadline);
  int64_t length(const std::string& queue);

  // How long a call waits that has no deadline of its own.
  Deadline::Duration timeout() const { return timeout_.load(); }
  void set_timeout(Deadline::Duration timeout) { timeout_ = timeout; }

  // The door all of the above go through: checks the limits, then executes.
  StoreReply call(StoreRequest request, Deadline deadline);

 protected:
  Store() = default;

  // Carries out one request, waiting until the deadline where its op waits.
  // Gets only requests that passed check_request().
  virtual StoreReply execute(StoreRequest request, Deadline deadline) = 0;

 private:
  Deadline by_default() const { return Deadline::in(timeout()); }

  std::atomic<Deadline::Duration> timeout_{std::chrono::seconds(300)};
};

namespace detail {
// The error for a wait whose deadline passed: names what is `missing`.
[[noreturn]] void throw_store_timeout(StoreOp op,
                                      const std::vector<std::string>& missing,
                                      Deadline::Duration waited);
}  // namespace detail

}  // namespace lockstep

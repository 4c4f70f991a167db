// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/store/request.h"

namespace lockstep::detail {

// The requests a server cannot answer yet, each under the one thing it waits
// for first: the server tries it again when that appears, and if something
// else is missing it comes back under that. So a key that is set touches only
// those who wait for it.
//
// Threads: one at a time.
class WaitingRoom {
 public:
  struct Waiter {
    uint64_t client = 0;
    uint64_t id = 0;  // the client's number for this request
    StoreRequest request;
  };

  // A place where requests wait: a key, or a queue.
  static std::string place(StoreOp op, const std::string& key) {
    const bool queue = op == StoreOp::kPush || op == StoreOp::kPop;
    return (queue ? "q" : "k") + key;
  }

  // Whether that client's request with that number is here.
  bool has(uint64_t client, uint64_t id) const {
    return waiters_.count({client, id}) > 0;
  }

  // Not one that is here already.
  void add(const std::string& place, Waiter waiter);

  // Takes out all who wait at `place`, in the order they came.
  std::vector<Waiter> take(const std::string& place);

  // Takes one out, if it is (still) here.
  std::optional<Waiter> take_one(uint64_t client, uint64_t id);

  // Forgets everything a client waits for.
  void drop_client(uint64_t client);

  size_t size() const { return waiters_.size(); }

 private:
  using Name = std::pair<uint64_t, uint64_t>;  // client, id

  struct Seat {
    std::string place;
    uint64_t arrival = 0;
    Waiter waiter;
  };

  void leave(const Seat& seat);

  uint64_t arrivals_ = 0;
  std::map<Name, Seat> waiters_;
  // place -> arrival -> who; no empty maps.
  std::unordered_map<std::string, std::map<uint64_t, Name>> places_;
};

}  // namespace lockstep::detail

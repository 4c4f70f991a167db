// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "store/codec.h"
#include "store/dictionary.h"
#include "store/waiting_room.h"

namespace lockstep::detail {

// The mind of a store server: who asked what, and who can be answered now. It
// knows no connections; a client is a number.
//
// Every request gets exactly one answer: at once, when what it waits for
// appears, or when its client takes it back.
//
// Threads: one at a time.
class Desk {
 public:
  struct Ready {
    uint64_t client = 0;
    uint64_t id = 0;  // the client's number for the request
    codec::Answer answer;
  };

  // Takes a request; adds to `ready` every answer that can be given now, its
  // own and those of others that waited for it. Errors: PeerError when the
  // client uses the number of a request that still waits.
  void ask(uint64_t client, uint64_t id, StoreRequest request,
           std::vector<Ready>& ready);

  // Answers a request that still waits with what it waits for. One that has
  // been answered is left alone: the client will see.
  void take_back(uint64_t client, uint64_t id, std::vector<Ready>& ready);

  // A client is gone: nothing it waits for is answered any more.
  void forget(uint64_t client) { waiting_.drop_client(client); }

  size_t waiting() const { return waiting_.size(); }

 private:
  bool attempt(WaitingRoom::Waiter waiter, std::vector<Ready>& ready);

  Dictionary dictionary_;
  WaitingRoom waiting_;
};

}  // namespace lockstep::detail

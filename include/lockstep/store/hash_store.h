// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/store/store.h"

namespace lockstep {

// A Store in the memory of one process, for ranks that are its threads.
//
// Every copy of the shared_ptr is a handle on the same contents. There is no
// server, so there is no PeerError.
class HashStore : public Store {
 public:
  HashStore();
  ~HashStore() override;

 private:
  StoreReply execute(StoreRequest request, Deadline deadline) override;

  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

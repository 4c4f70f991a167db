// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/store/store.h"

namespace lockstep {

// A part of another store: key "k" here is "prefix/k" there, and so for
// queues. Nests. Several users of one store give each other prefixes and stay
// out of each other's way; num_keys() counts the keys of this part.
//
// It starts with the timeout of the store it lies over.
class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

  const std::shared_ptr<Store>& underlying() const { return store_; }
  const std::string& prefix() const { return prefix_; }

 private:
  StoreReply execute(StoreRequest request, Deadline deadline) override;

  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

}  // namespace lockstep

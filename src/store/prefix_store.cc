// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/prefix_store.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix)), store_(std::move(store)) {
  LOCKSTEP_CHECK(store_ != nullptr, UsageError,
                 "PrefixStore '{}' needs a store to lie over", prefix_);
  set_timeout(store_->timeout());
}

StoreReply PrefixStore::execute(StoreRequest request, Deadline deadline) {
  for (auto& key : request.keys) key.insert(0, prefix_ + "/");
  return store_->call(std::move(request), deadline);
}

}  // namespace lockstep

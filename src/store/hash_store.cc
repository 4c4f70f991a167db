// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/hash_store.h"

#include <condition_variable>
#include <mutex>

#include "lockstep/base/thread.h"
#include "store/dictionary.h"

namespace lockstep {

struct HashStore::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  detail::Dictionary dictionary LOCKSTEP_GUARDED_BY(mutex);
};

HashStore::HashStore() : impl_(std::make_unique<Impl>()) {}
HashStore::~HashStore() = default;

StoreReply HashStore::execute(StoreRequest request, Deadline deadline) {
  const auto allowed = deadline.remaining();
  std::unique_lock<std::mutex> lock(impl_->mutex);
  for (;;) {
    if (auto outcome = impl_->dictionary.apply(request)) {
      if (outcome->changed) impl_->changed.notify_all();
      return std::move(outcome->reply);
    }
    if (deadline.passed()) {
      detail::throw_store_timeout(request.op,
                                  impl_->dictionary.missing(request), allowed);
    }
    impl_->changed.wait_until(lock, deadline.time());
  }
}

}  // namespace lockstep

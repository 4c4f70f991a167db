// SPDX-License-Identifier: Apache-2.0
#include "backend/refusal.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

namespace lockstep::detail {

Refusal::Refusal(const GroupPlace& place, std::string key)
    : place_(place), key_(std::move(key)) {}

void Refusal::refuse(const std::exception_ptr& error) {
  if (std::exchange(own_, error)) return;
  try {
    place_.store->compare_set(key_, std::nullopt,
                              encode(failure_of(error, place_.rank)));
  } catch (const Error&) {
    // Without a store nobody can be told; the error itself counts.
  }
}

void Refusal::look() {
  if (own_) std::rethrow_exception(own_);
  if (place_.store->check({key_})) {
    const Failure failure =
        decode_failure(place_.store->get(key_, Deadline::in(place_.timeout)));
    LOCKSTEP_CHECK(failure.kind != ErrorKind::kUsage, UsageError, "rank {}: {}",
                   failure.by, failure.text);
    std::rethrow_exception(error_of(failure, place_.rank));
  }
  if (place_.check) place_.check();
}

}  // namespace lockstep::detail

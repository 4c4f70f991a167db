// SPDX-License-Identifier: Apache-2.0
#include "backend/refusal.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace lockstep::detail {
namespace {

constexpr auto kTimeToTell = std::chrono::seconds(1);

}  // namespace

Refusal::Refusal(const GroupPlace& place, std::string key)
    : place_(place),
      key_(std::move(key)),
      deadline_(Deadline::in(place.timeout)) {}

void Refusal::refuse(const std::exception_ptr& error) {
  if (std::exchange(own_, error)) return;
  try {
    ByteVector text = encode(failure_of(error, place_.rank));
    place_.store->call({StoreOp::kCompareSet, {key_}, {std::move(text)}, 0},
                       earlier(deadline_, Deadline::in(kTimeToTell)));
  } catch (const Error&) {
    // Without a store nobody can be told; the error itself counts.
  }
}

void Refusal::look() {
  if (own_) std::rethrow_exception(own_);
  const StoreReply there =
      place_.store->call({StoreOp::kCheck, {key_}, {}, 0}, deadline_);
  if (there.number != 0) {
    const Failure failure = decode_failure(place_.store->get(key_, deadline_));
    LOCKSTEP_CHECK(failure.kind != ErrorKind::kUsage, UsageError, "rank {}: {}",
                   failure.by, failure.text);
    std::rethrow_exception(error_of(failure, place_.rank));
  }
  if (place_.check) place_.check();
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/request.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// Whether there are as many keys and values as the operation needs.
bool has_right_shape(const StoreRequest& request) {
  const size_t keys = request.keys.size();
  const size_t values = request.values.size();
  switch (request.op) {
    case StoreOp::kSet:
      return keys == values;
    case StoreOp::kGet:
    case StoreOp::kCheck:
    case StoreOp::kWait:
      return values == 0;
    case StoreOp::kAppend:
    case StoreOp::kPush:
      return keys == 1 && values == 1;
    case StoreOp::kCompareSet:
      return keys == 1 && (values == 1 || values == 2);
    case StoreOp::kAdd:
    case StoreOp::kDelete:
    case StoreOp::kNumKeys:
    case StoreOp::kPop:
    case StoreOp::kLength:
      return keys == 1 && values == 0;
  }
  return false;
}

}  // namespace

const char* to_text(StoreOp op) {
  switch (op) {
    case StoreOp::kSet:
      return "set";
    case StoreOp::kGet:
      return "get";
    case StoreOp::kAdd:
      return "add";
    case StoreOp::kCompareSet:
      return "compare_set";
    case StoreOp::kDelete:
      return "delete_key";
    case StoreOp::kCheck:
      return "check";
    case StoreOp::kWait:
      return "wait";
    case StoreOp::kAppend:
      return "append";
    case StoreOp::kNumKeys:
      return "num_keys";
    case StoreOp::kPush:
      return "push";
    case StoreOp::kPop:
      return "pop";
    case StoreOp::kLength:
      return "length";
  }
  return "unknown";
}

bool is_change(StoreOp op) {
  switch (op) {
    case StoreOp::kSet:
    case StoreOp::kAdd:
    case StoreOp::kCompareSet:
    case StoreOp::kDelete:
    case StoreOp::kAppend:
    case StoreOp::kPush:
    case StoreOp::kPop:
      return true;
    default:
      return false;
  }
}

bool is_waiting(StoreOp op) {
  return op == StoreOp::kGet || op == StoreOp::kWait || op == StoreOp::kPop;
}

void check_request(const StoreRequest& request) {
  LOCKSTEP_CHECK(request.op != StoreOp::kSet ||
                     request.keys.size() == request.values.size(),
                 UsageError, "{} keys but {} values; nothing was stored",
                 request.keys.size(), request.values.size());
  LOCKSTEP_CHECK(has_right_shape(request), UsageError,
                 "{} keys and {} values do not make a request",
                 request.keys.size(), request.values.size());
  LOCKSTEP_CHECK(request.keys.size() <= kMostKeysPerRequest, UsageError,
                 "{} keys in one request; the limit is {}", request.keys.size(),
                 kMostKeysPerRequest);
  size_t total = 0;
  for (const auto& key : request.keys) {
    LOCKSTEP_CHECK(key.size() <= kMostKeyBytes, UsageError,
                   "key '{}' has {} bytes; the limit is {}",
                   to_printable(key, 40), key.size(), kMostKeyBytes);
    total += key.size();
  }
  for (const auto& value : request.values) {
    LOCKSTEP_CHECK(value.size() <= kMostValueBytes, UsageError,
                   "the value for key '{}' has {} bytes; the limit is {}; a "
                   "store is for rendezvous, not for data",
                   to_printable(request.keys[0], 40), value.size(),
                   kMostValueBytes);
    total += value.size();
  }
  LOCKSTEP_CHECK(total <= kMostRequestBytes, UsageError,
                 "one request of {} bytes; the limit is {}; split it", total,
                 kMostRequestBytes);
}

}  // namespace lockstep

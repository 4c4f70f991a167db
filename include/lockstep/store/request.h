// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/bytes.h"

namespace lockstep {

// What a store is asked, as a value.
//
// Every call on a Store becomes one StoreRequest and ends in one StoreReply.
// So a prefix is added in one place, the TCP wire and the file log share one
// encoding, and a new store is one function.
enum class StoreOp : uint8_t {
  kSet = 1,     // keys[i] = values[i], all together
  kGet,         // waits for all keys; their values
  kAdd,         // keys[0] += delta; number = the new value
  kCompareSet,  // keys[0]; values = {desired} or, if expected, {desired, it}
  kDelete,      // keys[0]; number = 1 when it was there
  kCheck,       // number = 1 when all keys are there
  kWait,        // waits for all keys
  kAppend,      // keys[0] gets values[0] at its end
  kNumKeys,     // number = keys that begin with keys[0]
  kPush,        // queue keys[0] gets values[0] at its end
  kPop,         // waits for a value in queue keys[0] and takes it
  kLength,      // number = values in queue keys[0]
};

struct StoreRequest {
  StoreOp op = StoreOp::kSet;
  std::vector<std::string> keys;
  std::vector<ByteVector> values;
  int64_t delta = 0;  // kAdd
};

struct StoreReply {
  int64_t number = 0;              // kCompareSet: 1 when it stored
  std::vector<ByteVector> values;  // kCompareSet: the value now there, if any
};

// Limits that hold for every store: they keep a mistake in one rank from
// becoming everybody's memory problem.
inline constexpr size_t kMostKeyBytes = 8 << 10;
inline constexpr size_t kMostValueBytes = 8 << 20;
inline constexpr size_t kMostKeysPerRequest = 128 << 10;
// Keys and values of one request, or values of one reply, taken together.
inline constexpr size_t kMostRequestBytes = 64 << 20;

// "get", "compare_set": the name of the call.
const char* to_text(StoreOp op);

// Whether it may change the store, and whether it may wait.
bool is_change(StoreOp op);
bool is_waiting(StoreOp op);

// Errors: UsageError that says the limit and the size, or what is missing.
void check_request(const StoreRequest& request);

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lockstep/base/bytes.h"
#include "lockstep/store/request.h"

namespace lockstep::fuzz {

// What must hold whatever the bytes are; the fuzzer keeps those that break it.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// The fuzzer's bytes, consumed from the front. Past the end there are zeros
// and empty strings, so every input means something.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }

  uint8_t u8() {
    const ConstBytes byte = bytes(1);
    return byte.empty() ? 0 : std::to_integer<uint8_t>(*byte.data());
  }

  // Those that are left, at most `most`.
  ConstBytes bytes(size_t most) {
    const size_t count = std::min(most, rest_.size());
    const ConstBytes taken = rest_.first(count);
    rest_ = rest_.from(count);
    return taken;
  }
  ConstBytes counted() { return bytes(u8()); }
  ConstBytes rest() { return bytes(rest_.size()); }

  // A number of any magnitude, from two bytes.
  int64_t number() {
    const uint64_t digits = u8();
    return static_cast<int64_t>(digits << (u8() % 64));
  }

  // One of eight keys, so that requests meet; seldom any bytes at all.
  std::string key() {
    const uint8_t choice = u8();
    if (choice >= 0xf0) return to_string(counted());
    return {'k', static_cast<char>('0' + choice % 8)};
  }

  // Half of the values are numbers, for counters.
  ByteVector value() {
    const uint8_t choice = u8();
    if (choice < 0x80) return to_vector(std::to_string(choice));
    return to_vector(bytes(choice - 0x80));
  }

  // A request with as many keys and values as its operation needs.
  StoreRequest request();

 private:
  ConstBytes rest_;
};

inline StoreRequest Input::request() {
  StoreRequest request;
  request.op = static_cast<StoreOp>(1 + u8() % 12);
  size_t keys = 1;
  size_t values = 0;
  switch (request.op) {
    case StoreOp::kSet:
      keys = values = u8() % 4;
      break;
    case StoreOp::kGet:
    case StoreOp::kCheck:
    case StoreOp::kWait:
      keys = u8() % 4;
      break;
    case StoreOp::kAppend:
    case StoreOp::kPush:
      values = 1;
      break;
    case StoreOp::kCompareSet:
      values = 1 + u8() % 2;
      break;
    case StoreOp::kAdd:
      request.delta = number();
      break;
    default:
      break;
  }
  for (size_t i = 0; i < keys; ++i) request.keys.push_back(key());
  for (size_t i = 0; i < values; ++i) request.values.push_back(value());
  return request;
}

}  // namespace lockstep::fuzz

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/store/request.h"

// How requests and replies look as bytes, on the wire and in a file. The
// formats are written down in docs/stores.md.
namespace lockstep::detail::codec {

// How a request ended, on the wire.
enum class Status : uint8_t {
  kDone = 0,
  kRefused = 1,    // UsageError; text says why
  kCancelled = 2,  // its client gave up; missing says what it waited for
};

struct Answer {
  Status status = Status::kDone;
  StoreReply reply;                  // kDone
  std::string text;                  // kRefused
  std::vector<std::string> missing;  // kCancelled
};

// The most bytes that an encoded request or answer within the limits can have:
// the payload, a length per key and value, and a few fixed fields.
inline constexpr size_t kMostEncodedBytes =
    kMostRequestBytes + 8 * kMostKeysPerRequest + 64;

void encode(const StoreRequest& request, ByteWriter& writer);

// Nothing when the bytes are no well-formed request within the limits.
std::optional<StoreRequest> decode_request(ByteReader& reader);

void encode(const Answer& answer, ByteWriter& writer);
std::optional<Answer> decode_answer(ByteReader& reader);

}  // namespace lockstep::detail::codec

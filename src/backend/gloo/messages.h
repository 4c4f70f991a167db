// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::detail {

// The first byte of every message on a wire: what it is.
enum class Word : uint8_t {
  kPart,      // of a collective, or as much of it as fits: exchange.h
  kMore,      // the next of that part
  kReceived,  // u64: so many of your messages through Gloo
  kQuestion,  // u64: are you there?
  kAnswer,    // u64: I am
  kFailure,   // an encoded Failure: the group is finished
  kLeave,     // I leave the group in good order
  // Messages between two ranks: mail.h.
  kLetter,   // u32 tag, then all of it
  kTaken,    // u64: so many bytes of your letters have been received
  kOffer,    // u64 id, u32 tag, u64 bytes: a large one, when you want it
  kGrant,    // u64 id, u8: send it (1), or forget it (0)
  kChunk,    // u64 id, then the next part of it
  kRetract,  // u64 id: it is not coming
};

}  // namespace lockstep::detail

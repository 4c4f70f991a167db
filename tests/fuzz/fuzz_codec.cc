// SPDX-License-Identifier: Apache-2.0
// The parsers alone: frames, requests, answers; and the dictionary under the
// requests that parse. Each encoding is the only one of its value.
//
// Input: how to read it, the size of the pieces; then a stream of frames, or
// what makes requests.

#include <optional>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "lockstep/base/error.h"
#include "lockstep/net/frame.h"
#include "store/codec.h"
#include "store/dictionary.h"

namespace lockstep::fuzz {
namespace {

constexpr size_t kMostFrameBytes = 1000;  // low enough to be passed

// The frames of a stream, and whether one over the limit ended it.
struct Frames {
  std::vector<ByteVector> frames;
  bool refused = false;
  bool operator==(const Frames& other) const {
    return frames == other.frames && refused == other.refused;
  }
};

// By the book: all bytes are there from the beginning.
Frames frames_of(ConstBytes stream) {
  Frames result;
  while (stream.size() >= 4) {
    const size_t length = ByteReader(stream).u32();
    result.refused = length > kMostFrameBytes;
    if (result.refused || stream.size() - 4 < length) break;
    result.frames.push_back(to_vector(stream.from(4).first(length)));
    stream = stream.from(4 + length);
  }
  return result;
}

Frames frames_read_in_pieces(ConstBytes stream, size_t cut) {
  Frames result;
  FrameReader reader(kMostFrameBytes);
  try {
    while (!stream.empty()) {
      const Bytes room = reader.room();
      require(!room.empty(), "there is always room");
      size_t count = std::min(room.size(), stream.size());
      if (cut != 0) count = std::min(count, cut);
      std::copy_n(stream.data(), count, room.data());
      reader.filled(count);
      stream = stream.from(count);
      while (auto frame = reader.next()) {
        result.frames.push_back(to_vector(*frame));
      }
    }
  } catch (const PeerError&) {
    result.refused = true;
  }
  return result;
}

bool same(const std::optional<detail::Dictionary::Outcome>& a,
          const std::optional<detail::Dictionary::Outcome>& b) {
  if (!a || !b) return !a && !b;
  return a->changed == b->changed && a->reply.number == b->reply.number &&
         a->reply.values == b->reply.values;
}

// Two dictionaries that get the same requests stay the same.
class Twins {
 public:
  void apply(const StoreRequest& request) {
    const int64_t keys_before = number_of_keys();
    const auto missing = one_.missing(request);
    bool refused = false;
    std::optional<detail::Dictionary::Outcome> outcome;
    try {
      outcome = one_.apply(request);
    } catch (const UsageError&) {
      refused = true;
    }
    require(refused || outcome.has_value() == missing.empty(),
            "it waits for what is missing, and for nothing else");
    const bool may_change =
        outcome && outcome->changed && is_change(request.op);
    require(may_change || number_of_keys() == keys_before,
            "what did not change has not changed");
    try {
      require(same(other_.apply(request), outcome) && !refused,
              "the same request does the same");
    } catch (const UsageError&) {
      require(refused, "the same request is refused again");
    }
  }

 private:
  int64_t number_of_keys() {
    StoreRequest count;
    count.op = StoreOp::kNumKeys;
    count.keys.emplace_back();
    return one_.apply(count)->reply.number;
  }

  detail::Dictionary one_;
  detail::Dictionary other_;
};

template <class Value>
bool encodes_to(const Value& value, ConstBytes bytes) {
  ByteWriter writer;
  detail::codec::encode(value, writer);
  return ConstBytes(writer.bytes()) == bytes;
}

void parse(ConstBytes frame, Twins& twins) {
  ByteReader as_request(frame);
  if (const auto request = detail::codec::decode_request(as_request)) {
    require(encodes_to(*request, frame), "a request is encoded one way");
    twins.apply(*request);
  }
  ByteReader as_answer(frame);
  if (const auto answer = detail::codec::decode_answer(as_answer)) {
    require(encodes_to(*answer, frame), "an answer is encoded one way");
  }
}

void parse_own_encoding(const StoreRequest& request, Twins& twins) {
  ByteWriter writer;
  detail::codec::encode(request, writer);
  ByteReader reader(writer.bytes());
  require(detail::codec::decode_request(reader).has_value(),
          "a request within the limits can be decoded");
  parse(writer.bytes(), twins);
}

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::fuzz;
  Input input(data, size);
  const bool as_stream = input.u8() % 2 == 0;
  const size_t cut = input.u8();
  Twins twins;
  if (as_stream) {
    const lockstep::ConstBytes stream = input.rest();
    const Frames frames = frames_of(stream);
    require(frames_read_in_pieces(stream, cut) == frames,
            "frames do not depend on how they arrive");
    for (const auto& frame : frames.frames) parse(frame, twins);
    parse(stream, twins);
  } else {
    while (!input.empty()) parse_own_encoding(input.request(), twins);
  }
  return 0;
}

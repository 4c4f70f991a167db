// SPDX-License-Identifier: Apache-2.0
#include "store/codec.h"

#include "lockstep/base/error.h"

namespace lockstep::detail::codec {
namespace {

void put(ConstBytes bytes, ByteWriter& writer) { writer.counted(bytes); }

void take(ByteReader& reader, std::string& text) {
  text = to_string(reader.counted());
}

void take(ByteReader& reader, ByteVector& bytes) {
  bytes = to_vector(reader.counted());
}

template <class Item>
void put_list(const std::vector<Item>& items, ByteWriter& writer) {
  writer.u32(static_cast<uint32_t>(items.size()));
  for (const auto& item : items) put(item, writer);
}

// A count is believed only as far as bytes for that many items are there: each
// item has at least its length field.
template <class Item>
bool take_list(ByteReader& reader, std::vector<Item>& items) {
  const size_t count = reader.u32();
  if (count > kMostKeysPerRequest || count > reader.remaining() / 4) {
    return false;
  }
  items.resize(count);
  for (auto& item : items) take(reader, item);
  return reader.ok();
}

bool is_within_limits(const StoreRequest& request) {
  try {
    check_request(request);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

void encode(const StoreRequest& request, ByteWriter& writer) {
  writer.u8(static_cast<uint8_t>(request.op))
      .u64(static_cast<uint64_t>(request.delta));
  put_list(request.keys, writer);
  put_list(request.values, writer);
}

std::optional<StoreRequest> decode_request(ByteReader& reader) {
  StoreRequest request;
  const uint8_t op = reader.u8();
  if (op < static_cast<uint8_t>(StoreOp::kSet) ||
      op > static_cast<uint8_t>(StoreOp::kLength)) {
    return std::nullopt;
  }
  request.op = static_cast<StoreOp>(op);
  request.delta = static_cast<int64_t>(reader.u64());
  if (!take_list(reader, request.keys) || !take_list(reader, request.values) ||
      !reader.finished() || !is_within_limits(request)) {
    return std::nullopt;
  }
  return request;
}

void encode(const Answer& answer, ByteWriter& writer) {
  writer.u8(static_cast<uint8_t>(answer.status));
  switch (answer.status) {
    case Status::kDone:
      writer.u64(static_cast<uint64_t>(answer.reply.number));
      return put_list(answer.reply.values, writer);
    case Status::kRefused:
      return put(answer.text, writer);
    case Status::kCancelled:
      return put_list(answer.missing, writer);
  }
}

std::optional<Answer> decode_answer(ByteReader& reader) {
  Answer answer;
  answer.status = static_cast<Status>(reader.u8());
  bool ok = false;
  switch (answer.status) {
    case Status::kDone:
      answer.reply.number = static_cast<int64_t>(reader.u64());
      ok = take_list(reader, answer.reply.values);
      break;
    case Status::kRefused:
      take(reader, answer.text);
      ok = reader.ok();
      break;
    case Status::kCancelled:
      ok = take_list(reader, answer.missing);
      break;
  }
  if (!ok || !reader.finished()) return std::nullopt;
  return answer;
}

}  // namespace lockstep::detail::codec

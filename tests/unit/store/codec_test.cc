// SPDX-License-Identifier: Apache-2.0
#include "store/codec.h"

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

StoreRequest sample() {
  StoreRequest request;
  request.op = StoreOp::kCompareSet;
  request.keys = {std::string("k\0ey", 4)};
  request.values = {to_vector("desired"), {}};
  request.delta = -5;
  return request;
}

template <class T>
ByteVector encoded(const T& value) {
  ByteWriter writer;
  codec::encode(value, writer);
  return writer.take();
}

std::optional<StoreRequest> decoded(ConstBytes bytes) {
  ByteReader reader(bytes);
  return codec::decode_request(reader);
}

std::optional<codec::Answer> decoded_answer(ConstBytes bytes) {
  ByteReader reader(bytes);
  return codec::decode_answer(reader);
}

TEST(Codec, RequestsSurviveTheRoundTrip) {
  const auto request = sample();
  const auto back = decoded(encoded(request));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->op, request.op);
  EXPECT_EQ(back->keys, request.keys);
  EXPECT_EQ(back->values, request.values);
  EXPECT_EQ(back->delta, request.delta);
}

TEST(Codec, AnswersSurviveTheRoundTrip) {
  codec::Answer done;
  done.reply = {-7, {to_vector("v"), {}}};
  EXPECT_EQ(decoded_answer(encoded(done))->reply.number, -7);
  EXPECT_EQ(decoded_answer(encoded(done))->reply.values, done.reply.values);

  codec::Answer refused;
  refused.status = codec::Status::kRefused;
  refused.text = "no number";
  EXPECT_EQ(decoded_answer(encoded(refused))->text, "no number");

  codec::Answer cancelled;
  cancelled.status = codec::Status::kCancelled;
  cancelled.missing = {"a", "b"};
  EXPECT_EQ(decoded_answer(encoded(cancelled))->missing, cancelled.missing);
}

TEST(Codec, WhatIsCutOrTooLongIsRefused) {
  const auto request = encoded(sample());
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(decoded(ConstBytes(request).first(size))) << size;
  }
  auto longer = request;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decoded(longer));

  codec::Answer answer;
  answer.reply.values = {to_vector("v")};
  const auto bytes = encoded(answer);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decoded_answer(ConstBytes(bytes).first(size))) << size;
  }
}

TEST(Codec, UnknownOperationsAndShapesAreRefused) {
  for (int op : {0, 13, 255}) {
    auto bytes = encoded(sample());
    bytes[0] = static_cast<std::byte>(op);
    EXPECT_FALSE(decoded(bytes)) << op;
  }
  auto request = sample();
  request.op = StoreOp::kSet;  // one key, two values
  EXPECT_FALSE(decoded(encoded(request)));
  request = sample();
  request.keys[0] = std::string(kMostKeyBytes + 1, 'k');
  EXPECT_FALSE(decoded(encoded(request)));
}

TEST(Codec, ACountThatIsOnlyClaimedTakesNoMemory) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(StoreOp::kCheck)).u64(0).u32(100000);
  EXPECT_FALSE(decoded(writer.bytes()));
}

TEST(Codec, TheLargestRequestFitsItsBound) {
  StoreRequest request;
  request.op = StoreOp::kSet;
  const size_t each = kMostRequestBytes / kMostKeysPerRequest;
  request.keys.assign(kMostKeysPerRequest, std::string(each / 2, 'k'));
  request.values.assign(kMostKeysPerRequest, ByteVector(each - each / 2));
  EXPECT_NO_THROW(check_request(request));
  EXPECT_LE(encoded(request).size(), codec::kMostEncodedBytes);
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/bytes.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

TEST(Bytes, TextConvertsBothWays) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(to_string(ConstBytes(text)), text);
  EXPECT_EQ(to_vector("abc").size(), 3U);
  EXPECT_TRUE(ConstBytes("abc") == ConstBytes(std::string("abc")));
  EXPECT_TRUE(ConstBytes("abc") != ConstBytes("abd"));
  EXPECT_TRUE(ConstBytes("abc") != ConstBytes("ab"));
  EXPECT_TRUE(ConstBytes() == ConstBytes(""));
}

TEST(Bytes, PrintableEscapesAndCuts) {
  EXPECT_EQ(to_printable(std::string("a\n\xff", 3)), "a\\x0a\\xff");
  EXPECT_EQ(to_printable("abcdef", 3), "abc...");
  EXPECT_EQ(to_printable("abc", 3), "abc");
}

TEST(ByteWriter, WritesNetworkOrder) {
  ByteWriter writer;
  writer.u8(1).u32(0x02030405).u64(0x060708090a0b0c0dULL);
  const auto bytes = writer.take();
  ASSERT_EQ(bytes.size(), 13U);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<size_t>(bytes[i]), i + 1);
  }
}

TEST(ByteWriter, GoesOnAtTheEndOfWhatIsThere) {
  ByteWriter writer(to_vector("head"));
  writer.u8('!');
  EXPECT_EQ(to_string(writer.bytes()), "head!");
}

TEST(ByteWriter, PatchesALengthLater) {
  ByteWriter writer;
  writer.u32(0).raw("abc");
  writer.patch_u32(0, 3);
  ByteReader reader(writer.bytes());
  EXPECT_EQ(to_string(reader.counted()), "abc");
  EXPECT_TRUE(reader.finished());
  EXPECT_THROW(writer.patch_u32(5, 0), InternalError);
}

TEST(ByteReader, ReadsWhatWasWritten) {
  ByteWriter writer;
  writer.u8(7).u32(8).u64(9).counted("text").counted("").raw("tail");
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.u8(), 7);
  EXPECT_EQ(reader.u32(), 8U);
  EXPECT_EQ(reader.u64(), 9U);
  EXPECT_EQ(to_string(reader.counted()), "text");
  EXPECT_EQ(to_string(reader.counted()), "");
  EXPECT_FALSE(reader.finished());
  EXPECT_EQ(to_string(reader.raw(4)), "tail");
  EXPECT_TRUE(reader.finished());
}

TEST(ByteReader, StaysFailedAfterAShortField) {
  ByteWriter writer;
  writer.u32(100).raw("short");
  ByteReader reader(writer.bytes());
  EXPECT_TRUE(reader.counted().empty());
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0);  // though bytes are left
  EXPECT_FALSE(reader.finished());
}

TEST(ByteReader, NeverReadsPastTheEndWhereverItIsCut) {
  ByteWriter writer;
  writer.u8(1).u32(2).u64(3).counted("value");
  const auto& whole = writer.bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const ByteVector cut(whole.begin(), whole.begin() + size);
    ByteReader reader(cut);
    reader.u8();
    reader.u32();
    reader.u64();
    reader.counted();
    EXPECT_FALSE(reader.ok()) << size;
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/frame.h"

#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

ByteVector framed(const std::vector<std::string>& messages) {
  ByteWriter writer;
  for (const auto& message : messages) writer.counted(message);
  return writer.take();
}

// Feeds `stream` in pieces of `piece` bytes and collects the frames.
std::vector<std::string> read_in_pieces(ConstBytes stream, size_t piece,
                                        size_t most = 1 << 20) {
  FrameReader reader(most);
  std::vector<std::string> frames;
  while (!stream.empty()) {
    const Bytes room = reader.room();
    const size_t count = std::min({piece, stream.size(), room.size()});
    std::memcpy(room.data(), stream.data(), count);
    reader.filled(count);
    stream = stream.from(count);
    while (auto frame = reader.next()) frames.push_back(to_string(*frame));
  }
  EXPECT_EQ(reader.buffered(), 0U);
  return frames;
}

TEST(FrameReader, ParsesHoweverTheStreamIsCut) {
  const std::string big(10000, 'b');
  const auto stream = framed({"one", "", big, "four"});
  for (size_t piece : {1, 2, 3, 4, 5, 7, 100, 4095, 4096, 4097, 20000}) {
    EXPECT_THAT(read_in_pieces(stream, piece),
                ElementsAre("one", "", big, "four"))
        << piece;
  }
}

TEST(FrameReader, RefusesALengthOverTheLimitAtOnce) {
  ByteWriter writer;
  writer.u32(0xffffffff);
  EXPECT_THROW(read_in_pieces(writer.bytes(), 1, 1000), PeerError);
  EXPECT_THROW(read_in_pieces(framed({std::string(1001, 'x')}), 4096, 1000),
               PeerError);
  EXPECT_EQ(read_in_pieces(framed({std::string(1000, 'x')}), 4096, 1000).size(),
            1U);
}

TEST(FrameReader, TakesNoMemoryForWhatIsOnlyClaimed) {
  FrameReader reader(1 << 30);
  const auto claim = ByteWriter().u32(1 << 30).take();
  const Bytes room = reader.room();
  std::memcpy(room.data(), claim.data(), claim.size());
  reader.filled(claim.size());
  EXPECT_FALSE(reader.next());
  EXPECT_LE(reader.room().size(), 8192U);
}

TEST(FrameReader, HandsOutAPreamble) {
  FrameReader reader(100);
  const auto stream = ByteWriter().raw("hello").counted("frame").take();
  const Bytes room = reader.room();
  std::memcpy(room.data(), stream.data(), stream.size());
  reader.filled(3);
  EXPECT_FALSE(reader.next_raw(5));
  reader.filled(stream.size() - 3);
  EXPECT_EQ(to_string(*reader.next_raw(5)), "hello");
  EXPECT_EQ(to_string(*reader.next()), "frame");
}

TEST(SendQueue, ThatNeverRunsEmptyStaysSmall) {
  SendQueue queue;
  const ByteVector piece(100 << 10);
  queue.tail() = piece;
  for (int i = 0; i < 1000; ++i) {
    queue.tail().insert(queue.tail().end(), piece.begin(), piece.end());
    queue.sent(piece.size());
    ASSERT_EQ(queue.pending().size(), piece.size());
  }
  EXPECT_LT(queue.tail().size(), 2U << 20);
}

TEST(SendQueue, ForgetsWhatWasSent) {
  SendQueue queue;
  EXPECT_TRUE(queue.empty());
  queue.tail() = to_vector("abcdef");
  queue.sent(2);
  EXPECT_EQ(to_string(queue.pending()), "cdef");
  queue.sent(4);
  EXPECT_TRUE(queue.empty());
  queue.tail() = ByteVector(1 << 20);
  queue.sent(1 << 20);
  EXPECT_EQ(queue.tail().capacity(), 0U);  // a big one is given back
}

}  // namespace
}  // namespace lockstep

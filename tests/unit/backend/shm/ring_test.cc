// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>

namespace lockstep::detail {
namespace {

class RingTest : public ::testing::Test {
 protected:
  static void* zeroed() {
    void* const memory = ::operator new (sizeof(Ring), std::align_val_t{64});
    return std::memset(memory, 0, sizeof(Ring));
  }
  struct Free {
    void operator()(void* memory) const {
      ::operator delete (memory, std::align_val_t{64});
    }
  };
  std::unique_ptr<void, Free> memory_{zeroed()};
  Ring& ring_ = *static_cast<Ring*>(memory_.get());
};

TEST_F(RingTest, GivesBackWhatWasWritten) {
  EXPECT_EQ(ring_.readable(), 0U);
  EXPECT_TRUE(ring_.write("head", "body"));
  EXPECT_EQ(ring_.readable(), 8U);
  char text[5] = {};
  ring_.peek(2, {text, 4});
  EXPECT_STREQ(text, "adbo");
  ring_.consume(8);
  EXPECT_EQ(ring_.readable(), 0U);
}

TEST_F(RingTest, TakesAllOrNothing) {
  const ByteVector large(Ring::kBytes - 3);
  EXPECT_TRUE(ring_.write(large, {}));
  EXPECT_FALSE(ring_.write("ab", "cd"));
  EXPECT_EQ(ring_.readable(), large.size());
  EXPECT_TRUE(ring_.write("ab", "c"));
  ring_.consume(1);
  EXPECT_TRUE(ring_.write("d", {}));
  EXPECT_FALSE(ring_.write("e", {}));
}

// Lengths that fit the ring in no way, many times around it.
TEST_F(RingTest, KeepsTheOrderOfBytesBetweenTwoThreads) {
  constexpr int kMessages = 20000;
  std::thread writer([&] {
    for (int i = 0; i < kMessages; ++i) {
      const ByteVector body(static_cast<size_t>(i * 37 % 2999),
                            static_cast<std::byte>(i));
      while (!ring_.write({&i, sizeof(i)}, body)) std::this_thread::yield();
    }
  });
  int bad = 0;
  for (int i = 0; i < kMessages; ++i) {
    while (ring_.readable() < sizeof(i)) std::this_thread::yield();
    int number = -1;
    ring_.peek(0, {&number, sizeof(number)});
    ByteVector body(static_cast<size_t>(i * 37 % 2999));
    ring_.peek(sizeof(i), body);
    ring_.consume(sizeof(i) + body.size());
    bad += number != i;
    for (const std::byte byte : body) bad += byte != static_cast<std::byte>(i);
  }
  writer.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace lockstep::detail

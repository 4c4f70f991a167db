// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/bell.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(Bell, CountsItsRings) {
  Bell bell;
  EXPECT_EQ(bell.rings(), 0U);
  bell.ring();
  bell.ring();
  EXPECT_EQ(bell.rings(), 2U);
}

TEST(Bell, ReturnsAtOnceWhenItRangBefore) {
  Bell bell;
  bell.ring();
  EXPECT_EQ(bell.wait(0, Deadline::in(1h)), 1U);
}

TEST(Bell, WaitsUntilTheDeadlineWhenItIsSilent) {
  Bell bell;
  bell.ring();
  const auto start = Deadline::Clock::now();
  EXPECT_EQ(bell.wait(1, Deadline::in(20ms)), 1U);
  EXPECT_GE(Deadline::Clock::now() - start, 20ms);
}

TEST(Bell, WakesAllWhoWait) {
  Bell bell;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back(
        [&] { EXPECT_GE(bell.wait(0, Deadline::in(60s)), 1U); });
  }
  bell.ring();
  for (auto& waiter : waiters) waiter.join();
}

// Two threads that answer each other: one lost ring, and both wait for ever.
TEST(Bell, LosesNoRing) {
  Bell ping;
  Bell pong;
  constexpr uint64_t kRounds = 2000;
  std::thread other([&] {
    for (uint64_t i = 0; i < kRounds; ++i) {
      ASSERT_EQ(ping.wait(i, Deadline::in(60s)), i + 1);
      pong.ring();
    }
  });
  for (uint64_t i = 0; i < kRounds; ++i) {
    ping.ring();
    ASSERT_EQ(pong.wait(i, Deadline::in(60s)), i + 1);
  }
  other.join();
}

}  // namespace
}  // namespace lockstep

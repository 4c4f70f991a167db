// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/turn.h"

#include <gtest/gtest.h>

#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(Turn, IsHeldByOneAtATime) {
  Turn turn;
  int counter = 0;
  testing::run_threads(8, [&](int) {
    for (int i = 0; i < 1000; ++i) {
      const auto held = turn.take(Deadline::in(30s));
      ASSERT_TRUE(held);
      ++counter;
    }
  });
  EXPECT_EQ(counter, 8000);
}

TEST(Turn, IsWaitedForUntilTheDeadline) {
  Turn turn;
  auto held = turn.take(Deadline::in(1s));
  EXPECT_FALSE(turn.take(Deadline::in(10ms)));
  held.reset();
  EXPECT_TRUE(turn.take(Deadline::in(0ms)));
}

}  // namespace
}  // namespace lockstep

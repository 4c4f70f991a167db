// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/deadline.h"

#include <climits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, PassesAndHasNothingLeftThen) {
  const auto deadline = Deadline::in(-1s);
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.remaining(), 0s);
  EXPECT_EQ(deadline.poll_timeout(), 0);
}

TEST(Deadline, CountsDown) {
  const auto deadline = Deadline::in(1h);
  EXPECT_FALSE(deadline.passed());
  EXPECT_LE(deadline.remaining(), 1h);
  EXPECT_GT(deadline.remaining(), 59min);
}

TEST(Deadline, TheLongestDurationDoesNotOverflow) {
  const auto deadline = Deadline::in(Deadline::Duration::max());
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.poll_timeout(), INT_MAX);
}

TEST(Deadline, PollTimeoutRoundsUp) {
  EXPECT_EQ(Deadline::in(200us).poll_timeout(), 1);
  EXPECT_GE(Deadline::in(10ms).poll_timeout(), 9);
  EXPECT_LE(Deadline::in(10ms).poll_timeout(), 10);
}

TEST(Deadline, EarlierPicksTheSooner) {
  const auto soon = Deadline::in(1s);
  const auto late = Deadline::in(2s);
  EXPECT_EQ(earlier(soon, late).time(), soon.time());
  EXPECT_EQ(earlier(late, soon).time(), soon.time());
}

TEST(Duration, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(to_text(0s), "0 ms");
  EXPECT_EQ(to_text(5us), "5 us");
  EXPECT_EQ(to_text(250ms), "250 ms");
  EXPECT_EQ(to_text(1500ms), "1.5 s");
  EXPECT_EQ(to_text(30s), "30 s");
  EXPECT_EQ(to_text(10min), "10 min");
}

}  // namespace
}  // namespace lockstep

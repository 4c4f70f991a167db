// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/ready_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using Verdict = ReadyCounter::Verdict;

TEST(ReadyCounter, TheFirstGradientMakesReadyAndTheSecondIsOneTooMany) {
  ReadyCounter counter(2, false, 1);
  for (int cycle = 0; cycle < 2; ++cycle) {
    counter.start_cycle();
    EXPECT_EQ(counter.on_gradient(1), Verdict::kReady);
    counter.mark_ready(1);
    EXPECT_FALSE(counter.is_ready(0));
    EXPECT_THAT(counter.missing(), ElementsAre(0));
    EXPECT_EQ(counter.on_gradient(1), Verdict::kTwice);
    EXPECT_TRUE(counter.end_backward());
  }
}

TEST(ReadyCounter, AStaticGraphCountsInItsFirstCycle) {
  ReadyCounter counter(3, true, 1);
  counter.start_cycle();
  EXPECT_TRUE(counter.is_learning());
  for (const size_t one : {0, 1, 1}) {
    EXPECT_EQ(counter.on_gradient(one), Verdict::kNotYet);
  }
  counter.learn();
  EXPECT_THAT(counter.never_used(), ElementsAre(2));

  counter.start_cycle();
  EXPECT_EQ(counter.on_gradient(1), Verdict::kNotYet);
  EXPECT_EQ(counter.on_gradient(0), Verdict::kReady);
  EXPECT_EQ(counter.on_gradient(1), Verdict::kReady);
  counter.mark_ready(1);
  EXPECT_EQ(counter.on_gradient(1), Verdict::kChanged);
}

TEST(ReadyCounter, OnlyTheLastOfSeveralBackwardsMakesReady) {
  ReadyCounter counter(2, false, 2);
  counter.start_cycle();
  EXPECT_EQ(counter.on_gradient(0), Verdict::kNotYet);
  EXPECT_FALSE(counter.end_backward());
  EXPECT_TRUE(counter.has_gradient(0));
  EXPECT_FALSE(counter.has_gradient(1));
  EXPECT_EQ(counter.on_gradient(0), Verdict::kReady);
  EXPECT_TRUE(counter.end_backward());
}

}  // namespace
}  // namespace lockstep::detail

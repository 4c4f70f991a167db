// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/gate.h"

#include <atomic>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using State = Gate::State;

// As a backend makes one: from zeroed bytes.
class GateTest : public ::testing::Test {
 protected:
  alignas(64) unsigned char bytes_[sizeof(Gate)] = {};
  Gate& gate_ = *std::launder(reinterpret_cast<Gate*>(bytes_));
};

TEST_F(GateTest, OpensRoundByRoundWhenAllHaveCome) {
  for (uint64_t round = 1; round <= 3; ++round) {
    EXPECT_EQ(gate_.arrive(round, 2), State::kClosed);
    EXPECT_EQ(gate_.state(round, 2), State::kClosed);
    EXPECT_EQ(gate_.arrive(round, 2), State::kOpen);
    EXPECT_EQ(gate_.state(round, 2), State::kOpen);
    EXPECT_EQ(gate_.state(round + 1, 2), State::kClosed);
  }
}

TEST_F(GateTest, ABrokenGateNeverOpensAgain) {
  EXPECT_EQ(gate_.arrive(1, 1), State::kOpen);
  EXPECT_TRUE(gate_.break_before(2, 1));
  EXPECT_EQ(gate_.arrive(2, 1), State::kBroken);
  EXPECT_EQ(gate_.state(2, 1), State::kBroken);
}

TEST_F(GateTest, OneIsTheFirstToBreakIt) {
  EXPECT_TRUE(gate_.break_before(1, 1));
  EXPECT_FALSE(gate_.break_before(1, 1));
  EXPECT_FALSE(gate_.break_now());
}

TEST_F(GateTest, WhatWasOpenedStaysOpen) {
  EXPECT_EQ(gate_.arrive(1, 1), State::kOpen);
  EXPECT_FALSE(gate_.break_before(1, 1));
  EXPECT_EQ(gate_.state(2, 1), State::kClosed);
  EXPECT_TRUE(gate_.break_now());
  EXPECT_EQ(gate_.state(1, 1), State::kOpen);
  EXPECT_EQ(gate_.state(2, 1), State::kBroken);
}

// A futex sees the lower half of the count only.
TEST_F(GateTest, TheCountGoesPastThirtyTwoBits) {
  constexpr uint64_t kRound = uint64_t{1} << 32;
  const uint64_t arrivals = (kRound - 1) * 2 << 1;
  std::memcpy(bytes_, &arrivals, sizeof arrivals);
  EXPECT_EQ(gate_.state(kRound - 1, 2), State::kOpen);
  EXPECT_EQ(gate_.state(kRound, 2), State::kClosed);
  EXPECT_EQ(gate_.arrive(kRound, 2), State::kClosed);
  EXPECT_EQ(gate_.arrive(kRound, 2), State::kOpen);
  EXPECT_EQ(gate_.state(kRound, 2), State::kOpen);
}

TEST_F(GateTest, WaitsUntilTheTimeIsUp) {
  const auto start = Deadline::Clock::now();
  EXPECT_EQ(gate_.watch(1, 1, {10, 2}), State::kClosed);
  EXPECT_EQ(gate_.sleep(1, 1, Deadline::in(30ms)), State::kClosed);
  EXPECT_GE(Deadline::Clock::now() - start, 30ms);
}

TEST_F(GateTest, WakesSleepersWhenItOpensOrBreaks) {
  for (const bool open : {true, false}) {
    std::atomic<int> done{0};
    const uint64_t round = open ? 1 : 2;
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 3; ++i) {
      sleepers.emplace_back([&, i] {
        const WaitPolicy policy{i * 100, i};
        gate_.watch(round, 1, policy);
        EXPECT_EQ(gate_.sleep(round, 1, Deadline::in(60s)),
                  open ? State::kOpen : State::kBroken);
        ++done;
      });
    }
    EXPECT_TRUE(open ? gate_.arrive(1, 1) == State::kOpen : gate_.break_now());
    for (auto& sleeper : sleepers) sleeper.join();
    EXPECT_EQ(done, 3);
  }
}

// Opening and breaking race for a round: all waiters see the same outcome.
TEST_F(GateTest, ARoundIsCompletedForAllOrForNobody) {
  for (int i = 0; i < 300; ++i) {
    std::memset(bytes_, 0, sizeof bytes_);
    std::atomic<bool> opened{false};
    std::atomic<bool> broke{false};
    testing::run_threads(4, [&](int who) {
      if (who == 0) opened = gate_.arrive(1, 1) == State::kOpen;
      if (who == 1) broke = gate_.break_before(1, 1);
      const State state = gate_.sleep(1, 1, Deadline::in(60s));
      EXPECT_NE(state, State::kClosed);
    });
    EXPECT_NE(opened, broke);
    EXPECT_EQ(gate_.state(1, 1), opened ? State::kOpen : State::kBroken);
  }
}

TEST(WaitPolicy, SpinsOnlyWhenEveryRankHasACore) {
  EXPECT_GT(WaitPolicy::for_ranks(1).spins, 0);
  EXPECT_EQ(WaitPolicy::for_ranks(1'000'000).spins, 0);
  EXPECT_GT(WaitPolicy::for_ranks(4, 4).spins, 0);
  EXPECT_EQ(WaitPolicy::for_ranks(5, 4).spins, 0);
}

}  // namespace
}  // namespace lockstep

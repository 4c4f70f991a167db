// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

class ReducerKill : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, ReducerKill,
                         ::testing::Values("shm", "gloo"));

void kill_in_backward(const std::string& backend, const std::string& how) {
  for (const int victim : {0, 2}) {
    testing::RankJobPlan plan;
    plan.size = 3;
    plan.how = how;
    plan.argument = std::to_string(victim);
    plan.backend = backend;
    plan.place = [](int, std::vector<std::string> command) {
      command[0] = LOCKSTEP_REDUCER_WORKER;
      return command;
    };
    testing::RankJob job(plan);
    ASSERT_TRUE(job.wait_for_all("ready"));
    const auto begin = Deadline::Clock::now();
    for (int rank = 0; rank < plan.size; ++rank) {
      if (rank == victim) continue;
      ASSERT_TRUE(job.wait_for(rank, "backward")) << rank;
      const testing::Ending ending = job.ending(rank);
      EXPECT_EQ(ending.kind, "peer error") << ending.text;
      EXPECT_EQ(ending.peer, victim) << ending.text;
    }
    EXPECT_LT(Deadline::Clock::now() - begin, 10s);
  }
}

TEST_P(ReducerKill, InTheMiddleOfBackwardTheOthersGetTheErrorOutOfBackward) {
  kill_in_backward(GetParam(), "kill");
}

// Of two lanes, whichever hears of it first: the error is the same.
TEST_P(ReducerKill, WithAnOptimizerInBackwardTheyGetTheSameError) {
  kill_in_backward(GetParam(), "interleaved");
}

}  // namespace
}  // namespace lockstep

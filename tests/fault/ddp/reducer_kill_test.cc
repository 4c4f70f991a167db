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

TEST_P(ReducerKill, InTheMiddleOfBackwardTheOthersGetTheErrorOutOfBackward) {
  for (const int victim : {0, 2}) {
    testing::RankJobPlan plan;
    plan.size = 3;
    plan.how = "kill";
    plan.argument = std::to_string(victim);
    plan.backend = GetParam();
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

}  // namespace
}  // namespace lockstep

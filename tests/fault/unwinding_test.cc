// SPDX-License-Identifier: Apache-2.0
// A rank is killed while messages and collectives are in flight, and the
// survivors' exceptions unwind past their buffers. The other causes are in
// contract/backend_unwinding_test.cc.
#include <sys/wait.h>

#include <csignal>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_job.h"
#include "support/support.h"

namespace lockstep {
namespace {

class Unwinding : public ::testing::TestWithParam<const char*> {};

TEST_P(Unwinding, ADeathUnwindsPastBuffersInFlight) {
  std::mt19937 random(testing::announced_seed());
  testing::RankJobPlan plan;
  plan.size = 3;
  plan.how = "unwind";
  plan.backend = GetParam();
  const auto victim = static_cast<int>(random() % 3);
  for (int traffic = 0; traffic < 3; ++traffic) {
    SCOPED_TRACE(::testing::Message()
                 << "traffic " << traffic << ", rank " << victim);
    plan.argument =
        std::to_string(random() / 3 * 3 + static_cast<unsigned>(traffic));
    testing::RankJob job(plan);
    ASSERT_TRUE(job.wait_for_all("ready"));
    // Not to be right: so that it happens at another moment each time.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    job.rank(victim).signal(SIGKILL);
    for (int rank = 0; rank < plan.size; ++rank) {
      if (rank == victim) continue;
      const auto ending = job.ending(rank);
      EXPECT_EQ(ending.kind, "peer error") << rank << ": " << ending.text;
      EXPECT_EQ(ending.peer, victim) << ending.text;
      const int status = job.rank(rank).wait();
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << " has status " << status;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Unwinding, ::testing::Values("shm", "gloo"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace lockstep

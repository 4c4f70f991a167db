// SPDX-License-Identifier: Apache-2.0
// A rank on backend shm that is stopped in the middle of a sum: for the others
// it is a timeout, and when it goes on it can do them no harm.
#include <csignal>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/store/tcp_store.h"
#include "support/rank_job.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Ending;
using testing::RankJob;

TEST(ShmStop, AStoppedRankIsATimeoutAndHarmsNobodyLater) {
  const int trials = testing::full_run() ? 30 : 4;
  std::mt19937 random(testing::announced_seed());
  std::uniform_int_distribution<int> moment(0, 30000);
  for (int trial = 0; trial < trials; ++trial) {
    constexpr int kRanks = 3;
    const auto victim = static_cast<int>(random() % kRanks);
    SCOPED_TRACE(::testing::Message()
                 << "trial " << trial << ", rank " << victim << " is stopped");
    RankJob job(kRanks, "stop", static_cast<uint64_t>(trial));
    ASSERT_TRUE(job.wait_for_all("ready"));
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    job.rank(victim).stop();
    const auto stopped = Deadline::Clock::now();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const Ending ending = job.ending(rank);
      ASSERT_EQ(ending.kind, "timeout") << ending.text;
      EXPECT_EQ(ending.peer, victim) << ending.text;
      EXPECT_LT(ending.when - stopped, 2s + 2s);  // its patience, and a moment
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      ASSERT_TRUE(job.wait_for(rank, "moved on"));
    }

    job.rank(victim).signal(SIGCONT);
    const Ending late = job.ending(victim);
    EXPECT_EQ(late.kind, "aborted") << late.text;
    TcpStore("127.0.0.1", job.port(), "").set("continued", "");
    for (int rank = 0; rank < kRanks; ++rank) {
      const Ending ending = job.ending(rank);
      EXPECT_EQ(ending.kind, "done") << ending.text;
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// More ranks than anybody has cores for: everything works, and in time.
#include <gtest/gtest.h>

#include "support/rank_job.h"
#include "support/support.h"

namespace lockstep {
namespace {

TEST(ShmSmoke, ThirtyTwoProcessesComputeTheRightValues) {
  testing::raise_descriptor_limit();
  testing::RankJob job(32, "smoke");
  for (int rank = 0; rank < job.size(); ++rank) {
    const testing::Ending ending = job.ending(rank);
    EXPECT_EQ(ending.kind, "done") << "rank " << rank << ": " << ending.text;
  }
}

}  // namespace
}  // namespace lockstep

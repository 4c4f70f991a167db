// SPDX-License-Identifier: Apache-2.0
// Backend shm where there is too little of something, or where ranks are not
// on one host: an error that says what is wrong, and nobody is killed.
#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_job.h"
#include "support/sanitizers.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using testing::Ending;
using ::testing::HasSubstr;
using testing::RankJob;

bool ended_by_itself(RankJob& job) {
  bool all = true;
  for (int rank = 0; rank < job.size(); ++rank) {
    const int status = job.rank(rank).wait();
    all = all && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return all;
}

TEST(ShmLimits, MoreMemoryThanThereIsIsAnErrorWithBothNumbers) {
  const uint64_t a_terabyte = uint64_t{1} << 40;
  RankJob job(2, "allocate", a_terabyte);
  for (int rank = 0; rank < job.size(); ++rank) {
    const Ending ending = job.ending(rank);
    EXPECT_EQ(ending.kind, "system error") << ending.text;
    EXPECT_THAT(ending.text,
                ContainsRegex("219902[0-9].* MB asked, there is room for "
                              "[0-9.]+ MB"));
  }
  EXPECT_TRUE(ended_by_itself(job));
}

TEST(ShmLimits, TooLittleAddressSpaceIsAnErrorThatSaysSo) {
  constexpr bool sanitized =
      testing::kAddressSanitizer || testing::kThreadSanitizer;
  if (sanitized) GTEST_SKIP() << "sanitizers need all address space there is";
  RankJob job(3, "narrow", uint64_t{64} << 20);
  for (int rank = 0; rank < job.size(); ++rank) {
    const Ending ending = job.ending(rank);
    EXPECT_EQ(ending.kind, rank == 1 ? "system error" : "aborted")
        << ending.text;
    EXPECT_THAT(ending.text, HasSubstr("ulimit -v"));
  }
  EXPECT_TRUE(ended_by_itself(job));
}

// Nothing of ours lives there.
TEST(ShmLimits, ASmallDevShmDoesNotMatter) {
  RankJob job(2, "tiny_shm", uint64_t{100} << 20);
  for (int rank = 0; rank < job.size(); ++rank) {
    const Ending ending = job.ending(rank);
    if (ending.kind == "skip") GTEST_SKIP() << ending.text;
    EXPECT_EQ(ending.kind, "done") << ending.text;
  }
}

// A container is another host, as far as memory goes.
TEST(ShmLimits, RanksInTwoPidNamespacesAreToldAtOnce) {
  for (const int apart : {0, 2}) {
    const auto start = Deadline::Clock::now();
    RankJob job(3, "apart", static_cast<uint64_t>(apart));
    const Ending first = job.ending(apart);
    if (first.kind == "skip") GTEST_SKIP() << first.text;
    for (int rank = 0; rank < job.size(); ++rank) {
      const Ending ending = rank == apart ? first : job.ending(rank);
      EXPECT_EQ(ending.kind, "usage error") << ending.text;
      EXPECT_THAT(ending.text, HasSubstr("joins the ranks of one host"));
    }
    EXPECT_LT(Deadline::Clock::now() - start, 20s);
    EXPECT_TRUE(ended_by_itself(job));
  }
}

}  // namespace
}  // namespace lockstep

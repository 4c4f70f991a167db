// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/store/hash_store.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::run_threads;

TEST(Meet, LetsAllGoTogether) {
  HashStore store;
  run_threads(16, [&](int rank) {
    meet(store, rank, 16, Deadline::in(30s));
    EXPECT_EQ(to_string(store.get("count")), "16");
  });
}

TEST(Meet, SaysHowManyJoinedAndWhoIsMissing) {
  HashStore store;
  run_threads(2, [&](int i) {
    try {
      meet(store, 2 * i, 4, Deadline::in(100ms));
      ADD_FAILURE();
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(2 * i)));
      EXPECT_THAT(error.what(), HasSubstr("2 of 4 ranks joined"));
      EXPECT_THAT(error.what(), HasSubstr("missing: 1, 3"));
    }
  });
}

TEST(Meet, NamesAtMostSoMany) {
  HashStore store;
  try {
    meet(store, 0, 1000, Deadline::in(1ms));
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("16 and 983 more"));
  }
}

TEST(Meet, LogsWhoIsMissingWhileItWaits) {
  testing::LogCapture log;
  HashStore store;
  EXPECT_THROW(meet(store, 1, 2, Deadline::in(100ms), 20ms), TimeoutError);
  EXPECT_GE(log.count("1 of 2 ranks joined, missing: 0"), 2);
}

TEST(Meet, FindsTwoProcessesWithOneRank) {
  HashStore store;
  EXPECT_THROW(meet(store, 0, 2, Deadline::in(1ms)), TimeoutError);
  try {
    meet(store, 0, 2, Deadline::in(1s));
    FAIL();
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 has joined before"));
  }
}

TEST(Meet, FindsSizesThatDiffer) {
  HashStore store;
  EXPECT_THROW(meet(store, 0, 2, Deadline::in(1ms)), TimeoutError);
  try {
    meet(store, 1, 3, Deadline::in(1s));
    FAIL();
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), HasSubstr("world size of 3"));
    EXPECT_THAT(error.what(), HasSubstr("with 2"));
  }
}

TEST(Meet, ChecksTheRank) {
  HashStore store;
  EXPECT_THROW(meet(store, 2, 2, Deadline::in(1s)), UsageError);
  EXPECT_THROW(meet(store, -1, 2, Deadline::in(1s)), UsageError);
  EXPECT_THROW(meet(store, 0, 0, Deadline::in(1s)), UsageError);
  EXPECT_EQ(store.num_keys(), 0);
}

}  // namespace
}  // namespace lockstep

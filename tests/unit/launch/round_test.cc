// SPDX-License-Identifier: Apache-2.0
#include "launch/round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/store/hash_store.h"

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Round, LetsItsOwnProcessesIn) {
  HashStore store;
  begin_round(store, "job.0");
  EXPECT_NO_THROW(check_round(store, "job.0"));
  EXPECT_NO_THROW(check_round(store, "job.0"));
}

TEST(Round, TurnsAwayAProcessOfAnEarlierOne) {
  HashStore store;
  begin_round(store, "job.0");
  begin_round(store, "job.1");
  EXPECT_NO_THROW(check_round(store, "job.1"));
  try {
    check_round(store, "job.0");
    FAIL();
  } catch (const MismatchError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'job.0', which is over"),
                                    HasSubstr("now at 'job.1'")));
  }
}

TEST(Round, LetsAnybodyInWhereThereIsNoLauncher) {
  HashStore store;
  EXPECT_NO_THROW(check_round(store, "whatever"));
  EXPECT_EQ(store.num_keys(), 0);
}

}  // namespace
}  // namespace lockstep::detail

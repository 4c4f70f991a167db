// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/used_map.h"

#include <gmock/gmock.h>

#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using testing::on_ranks;
using testing::SharedGroup;

TEST(UsedMap, KnowsWhatAnyRankHasUsed) {
  on_ranks(2, [](const SharedGroup& group) {
    UsedMap used(3);
    used.start_cycle(true);
    used.mark(0);
    if (group->rank() == 1) used.mark(1);
    used.reduce(*group, used.take());
    EXPECT_TRUE(used.is_used_anywhere(0));
    EXPECT_TRUE(used.is_used_anywhere(1));
    EXPECT_FALSE(used.is_used_anywhere(2));
    EXPECT_FALSE(used.is_marked(0));  // a new count
    used.check();
  });
}

TEST(UsedMap, WithoutASumEverythingCountsAsUsedAndMarksStay) {
  UsedMap used(2);
  used.start_cycle(false);
  used.mark(1);
  EXPECT_FALSE(used.take().defined());
  EXPECT_TRUE(used.is_marked(1));
  EXPECT_TRUE(used.is_used_anywhere(0));
}

// Parameter 0 is used by both ranks, 1 by rank 1, 2 by none, 3 by an earlier
// backward of rank 0.
TEST(UsedMap, RanksAgreeOnWhatAnyOfThemUses) {
  on_ranks(2, [](const SharedGroup& group) {
    UsedMap used(4);
    used.start_cycle(true);
    if (group->rank() == 0) used.mark(3);
    const std::vector<size_t> unused = group->rank() == 0
                                           ? std::vector<size_t>{1, 2, 3}
                                           : std::vector<size_t>{2, 3};
    EXPECT_THAT(used.agree(*group, unused),
                ::testing::ElementsAre(true, true, false, true));
    EXPECT_FALSE(used.is_marked(0));  // the count goes on as before
  });
}

TEST(UsedMap, ASumThatCannotBeLaunchedIsToldByCheck) {
  on_ranks(1, [](const SharedGroup& group) {
    UsedMap used(2);
    used.start_cycle(true);
    group->abort("enough");
    used.reduce(*group, used.take());
    EXPECT_THROW(used.check(), AbortedError);
    used.reset();
    used.check();
  });
}

}  // namespace
}  // namespace lockstep::detail

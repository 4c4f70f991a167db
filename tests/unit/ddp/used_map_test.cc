// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/used_map.h"

#include <gtest/gtest.h>

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

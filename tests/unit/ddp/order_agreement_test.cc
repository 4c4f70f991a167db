// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/order_agreement.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using testing::on_ranks;
using testing::SharedGroup;

TEST(OrderAgreement, AllRanksGetRankZerosOrder) {
  on_ranks(2, [](const SharedGroup& group) {
    OrderAgreement order;
    EXPECT_FALSE(order.is_pending());
    order.begin(*group, group->rank() == 0 ? std::vector<size_t>{2, 0, 1}
                                           : std::vector<size_t>{0, 1, 2});
    EXPECT_TRUE(order.is_pending());
    EXPECT_THAT(order.finish(), ElementsAre(2, 0, 1));
    EXPECT_FALSE(order.is_pending());
  });
}

// The memory that travels outlives the agreement that was given up.
TEST(OrderAgreement, AResetForgetsWhatIsUnderWay) {
  on_ranks(2, [](const SharedGroup& group) {
    OrderAgreement order;
    order.begin(*group, {1, 0});
    order.reset();
    EXPECT_FALSE(order.is_pending());
    order.begin(*group, {0, 1});
    EXPECT_THAT(order.finish(), ElementsAre(0, 1));
  });
}

TEST(OrderAgreement, AFailedGroupIsAnErrorAtTheEnd) {
  on_ranks(2, [](const SharedGroup& group) {
    OrderAgreement order;
    if (group->rank() == 0) {
      group->abort("enough");
      EXPECT_THROW(order.begin(*group, {0}), AbortedError);
    } else {
      try {
        order.begin(*group, {0});
      } catch (const AbortedError&) {
        return;  // rank 0 was quicker
      }
      EXPECT_THROW(order.finish(), AbortedError);
      EXPECT_FALSE(order.is_pending());
    }
  });
}

}  // namespace
}  // namespace lockstep::detail

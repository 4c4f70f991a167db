// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/notices.h"

#include <gmock/gmock.h>

#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST(NoticeList, CallsAllInOrderAndRefusesAnEmptyOne) {
  NoticeList<int> list;
  std::vector<int> heard;
  list.add([&](int x) { heard.push_back(x); }, "on_x");
  list.add([&](int x) { heard.push_back(10 * x); }, "on_x");
  list(2);
  EXPECT_THAT(heard, ElementsAre(2, 20));
  EXPECT_THAT(message_of<UsageError>([&] { list.add({}, "on_x"); }),
              HasSubstr("on_x got an empty function"));
  list.clear();
  list(3);
  EXPECT_EQ(heard.size(), 2U);
}

}  // namespace
}  // namespace lockstep::detail

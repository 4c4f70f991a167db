// SPDX-License-Identifier: Apache-2.0
#include "store/waiting_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> ids(const std::vector<WaitingRoom::Waiter>& waiters) {
  std::vector<uint64_t> found;
  for (const auto& waiter : waiters) found.push_back(waiter.id);
  return found;
}

TEST(WaitingRoom, GivesBackInTheOrderOfArrival) {
  WaitingRoom room;
  room.add("a", {1, 30, {}});
  room.add("b", {1, 10, {}});
  room.add("a", {2, 20, {}});
  room.add("a", {1, 5, {}});
  EXPECT_EQ(room.size(), 4U);
  EXPECT_THAT(ids(room.take("a")), ElementsAre(30, 20, 5));
  EXPECT_TRUE(room.take("a").empty());
  EXPECT_EQ(room.size(), 1U);
}

TEST(WaitingRoom, TakesOneOut) {
  WaitingRoom room;
  room.add("a", {1, 1, {}});
  room.add("a", {1, 2, {}});
  EXPECT_TRUE(room.take_one(1, 1));
  EXPECT_FALSE(room.take_one(1, 1));
  EXPECT_FALSE(room.take_one(2, 2));
  EXPECT_THAT(ids(room.take("a")), ElementsAre(2));
}

TEST(WaitingRoom, ForgetsAClient) {
  WaitingRoom room;
  for (uint64_t client : {1, 2, 3}) {
    room.add("a", {client, 7, {}});
    room.add("b", {client, 8, {}});
  }
  room.drop_client(2);
  room.drop_client(9);
  EXPECT_EQ(room.size(), 4U);
  for (const auto& waiter : room.take("a")) EXPECT_NE(waiter.client, 2U);
  EXPECT_EQ(room.take("b").size(), 2U);
  EXPECT_EQ(room.size(), 0U);
}

TEST(WaitingRoom, KeysAndQueuesAreTwoPlaces) {
  EXPECT_NE(WaitingRoom::place(StoreOp::kPop, "x"),
            WaitingRoom::place(StoreOp::kGet, "x"));
  EXPECT_EQ(WaitingRoom::place(StoreOp::kPop, "x"),
            WaitingRoom::place(StoreOp::kPush, "x"));
  EXPECT_EQ(WaitingRoom::place(StoreOp::kSet, "x"),
            WaitingRoom::place(StoreOp::kWait, "x"));
}

}  // namespace
}  // namespace lockstep::detail

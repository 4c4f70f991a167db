// SPDX-License-Identifier: Apache-2.0
#include "store/desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class DeskTest : public ::testing::Test {
 protected:
  using Names = std::vector<std::pair<uint64_t, uint64_t>>;  // client, id

  // Asks and says whose requests were answered, in order.
  Names ask(uint64_t client, uint64_t id, StoreOp op,
            std::vector<std::string> keys,
            std::vector<ByteVector> values = {}) {
    ready_.clear();
    desk_.ask(client, id, {op, std::move(keys), std::move(values), 1}, ready_);
    return answered();
  }

  Names answered() const {
    Names names;
    for (const auto& one : ready_) names.emplace_back(one.client, one.id);
    return names;
  }

  Desk desk_;
  std::vector<Desk::Ready> ready_;
};

TEST_F(DeskTest, AnswersAtOnceWhatNeedsNoWaiting) {
  EXPECT_THAT(ask(1, 10, StoreOp::kSet, {"k"}, {{}}), ElementsAre(Pair(1, 10)));
  EXPECT_THAT(ask(2, 20, StoreOp::kGet, {"k"}), ElementsAre(Pair(2, 20)));
  EXPECT_EQ(ready_[0].answer.status, codec::Status::kDone);
}

TEST_F(DeskTest, AnswersThoseWhoWaitedInTheOrderTheyCame) {
  EXPECT_THAT(ask(3, 1, StoreOp::kGet, {"k"}), IsEmpty());
  EXPECT_THAT(ask(1, 2, StoreOp::kWait, {"k"}), IsEmpty());
  EXPECT_EQ(desk_.waiting(), 2U);
  EXPECT_THAT(ask(2, 3, StoreOp::kAdd, {"k"}),
              ElementsAre(Pair(2, 3), Pair(3, 1), Pair(1, 2)));
  EXPECT_EQ(desk_.waiting(), 0U);
}

TEST_F(DeskTest, AWaitForSeveralKeysEndsWithTheLast) {
  EXPECT_THAT(ask(1, 1, StoreOp::kWait, {"a", "b", "c"}), IsEmpty());
  EXPECT_THAT(ask(2, 2, StoreOp::kSet, {"c"}, {{}}), ElementsAre(Pair(2, 2)));
  EXPECT_THAT(ask(2, 3, StoreOp::kSet, {"a"}, {{}}), ElementsAre(Pair(2, 3)));
  EXPECT_THAT(ask(2, 4, StoreOp::kSet, {"b"}, {{}}),
              ElementsAre(Pair(2, 4), Pair(1, 1)));
}

TEST_F(DeskTest, OnePushAnswersOnePop) {
  ask(1, 1, StoreOp::kPop, {"q"});
  ask(2, 2, StoreOp::kPop, {"q"});
  EXPECT_THAT(ask(3, 3, StoreOp::kPush, {"q"}, {{}}),
              ElementsAre(Pair(3, 3), Pair(1, 1)));
  EXPECT_EQ(desk_.waiting(), 1U);
  EXPECT_THAT(ask(3, 4, StoreOp::kPush, {"q"}, {{}}),
              ElementsAre(Pair(3, 4), Pair(2, 2)));
}

TEST_F(DeskTest, AClientThatIsGoneTakesNothing) {
  ask(1, 1, StoreOp::kPop, {"q"});
  desk_.forget(1);
  EXPECT_THAT(ask(2, 2, StoreOp::kPush, {"q"}, {{}}), ElementsAre(Pair(2, 2)));
  EXPECT_THAT(ask(2, 3, StoreOp::kPop, {"q"}), ElementsAre(Pair(2, 3)));
}

TEST_F(DeskTest, ARequestTakenBackIsAnsweredWithWhatItWaitedFor) {
  ask(1, 1, StoreOp::kWait, {"a", "b"});
  ask(1, 2, StoreOp::kSet, {"a"}, {{}});
  ready_.clear();
  desk_.take_back(1, 1, ready_);
  ASSERT_THAT(answered(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(ready_[0].answer.status, codec::Status::kCancelled);
  EXPECT_THAT(ready_[0].answer.missing, ElementsAre("b"));
  ready_.clear();
  desk_.take_back(1, 1, ready_);  // answered already
  desk_.take_back(9, 9, ready_);  // never asked
  EXPECT_TRUE(ready_.empty());
}

TEST_F(DeskTest, ANumberIsNotUsedTwiceWhileItWaits) {
  ask(1, 1, StoreOp::kGet, {"k"});
  EXPECT_THROW(ask(1, 1, StoreOp::kGet, {"other"}), PeerError);
  EXPECT_THROW(ask(1, 1, StoreOp::kSet, {"k"}, {{}}), PeerError);
  EXPECT_THAT(ask(2, 1, StoreOp::kSet, {"k"}, {{}}),
              ElementsAre(Pair(2, 1), Pair(1, 1)));
  EXPECT_THAT(ask(1, 1, StoreOp::kGet, {"k"}), ElementsAre(Pair(1, 1)));
}

TEST_F(DeskTest, ARefusalIsAnAnswer) {
  ask(1, 1, StoreOp::kSet, {"k"}, {to_vector("no number")});
  EXPECT_THAT(ask(1, 2, StoreOp::kAdd, {"k"}), ElementsAre(Pair(1, 2)));
  EXPECT_EQ(ready_[0].answer.status, codec::Status::kRefused);
}

}  // namespace
}  // namespace lockstep::detail

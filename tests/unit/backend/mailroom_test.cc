// SPDX-License-Identifier: Apache-2.0
#include "backend/local/mailroom.h"

#include <gmock/gmock.h>

#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

class MailroomTest : public ::testing::Test {
 protected:
  MailroomTest() {
    for (int rank = 0; rank < 3; ++rank) {
      bells_.push_back(std::make_shared<Bell>());
      room_.open(rank, bells_.back());
    }
  }

  Mailroom room_{3};
  std::vector<std::shared_ptr<Bell>> bells_;
  std::vector<uint8_t> small_ = std::vector<uint8_t>(10, 7);
  std::vector<uint8_t> large_ =
      std::vector<uint8_t>(Mailroom::kEagerBytes + 1, 8);
};

TEST_F(MailroomTest, KeepsSmallMessagesForWhoeverComes) {
  auto sent = room_.send(buffer_of(small_), 0, 1, 5);
  EXPECT_TRUE(sent->test());
  small_.assign(10, 0);  // the sender's memory is free again
  sent.reset();
  std::vector<uint8_t> got(10);
  auto received = room_.recv(buffer_of(got), 0, 1, 5);
  EXPECT_TRUE(received->test());
  EXPECT_EQ(received->source(), 0);
  EXPECT_THAT(got, Each(7));
}

TEST_F(MailroomTest, LargeMessagesWaitForTheirReceiver) {
  auto sent = room_.send(buffer_of(large_), 0, 1, 5);
  EXPECT_FALSE(sent->test());
  const uint64_t rings = bells_[0]->rings();
  std::vector<uint8_t> got(large_.size());
  auto received = room_.recv(buffer_of(got), 0, 1, 5);
  EXPECT_TRUE(received->test());
  EXPECT_TRUE(sent->test());
  EXPECT_GT(bells_[0]->rings(), rings);
  EXPECT_EQ(got, large_);
}

TEST_F(MailroomTest, KeepsOnlySoMuch) {
  std::vector<uint8_t> page(Mailroom::kEagerBytes);
  const size_t most = Mailroom::kMostEagerBytes / Mailroom::kEagerBytes;
  for (size_t i = 0; i < most; ++i) {
    EXPECT_TRUE(room_.send(buffer_of(page), 0, 1, 0)->test());
  }
  auto one_more = room_.send(buffer_of(small_), 0, 1, 0);
  EXPECT_FALSE(one_more->test());
  EXPECT_TRUE(room_.send(buffer_of(small_), 0, 2, 0)->test());  // another box
  EXPECT_TRUE(room_.recv(buffer_of(page), 0, 1, 0)->test());
  EXPECT_TRUE(room_.send(buffer_of(small_), 0, 1, 0)->test());
}

TEST_F(MailroomTest, AReceiveThatCameFirstIsServed) {
  std::vector<uint8_t> got(10);
  auto received = room_.recv(buffer_of(got), kAnyRank, 1, 5);
  EXPECT_FALSE(received->test());
  auto other_tag = room_.send(buffer_of(small_), 0, 1, 6);
  EXPECT_FALSE(received->test());
  const uint64_t rings = bells_[1]->rings();
  room_.send(buffer_of(small_), 2, 1, 5);
  EXPECT_TRUE(received->test());
  EXPECT_EQ(received->source(), 2);
  EXPECT_GT(bells_[1]->rings(), rings);
}

TEST_F(MailroomTest, AWithdrawnTransferIsNeverMatched) {
  std::vector<uint8_t> first(10);
  std::vector<uint8_t> second(10);
  room_.recv(buffer_of(first), 0, 1, 5).reset();
  auto kept = room_.recv(buffer_of(second), 0, 1, 5);
  room_.send(buffer_of(small_), 0, 1, 5);
  EXPECT_TRUE(kept->test());
  EXPECT_THAT(first, Each(0));
  room_.send(buffer_of(large_), 0, 1, 6).reset();
  std::vector<uint8_t> got(large_.size());
  EXPECT_FALSE(room_.recv(buffer_of(got), 0, 1, 6)->test());
}

TEST_F(MailroomTest, SizesMustBeEqual) {
  std::vector<uint8_t> got(11);
  auto received = room_.recv(buffer_of(got), 0, 1, 5);
  EXPECT_TRUE(room_.send(buffer_of(small_), 0, 1, 5)->test());
  EXPECT_THAT(message_of<MismatchError>([&] { received->test(); }),
              HasSubstr("rank 0 sent 10 bytes with tag 5, but the receive is "
                        "for 11"));
  EXPECT_THAT(got, Each(0));
}

TEST_F(MailroomTest, WhoWaitsForARankThatHasGoneHearsSo) {
  std::vector<uint8_t> got(10);
  auto from = room_.recv(buffer_of(got), 2, 1, 5);
  auto any = room_.recv(buffer_of(got), kAnyRank, 1, 6);
  auto to = room_.send(buffer_of(large_), 1, 2, 5);
  const uint64_t rings = bells_[1]->rings();
  room_.close(2);
  EXPECT_GT(bells_[1]->rings(), rings);
  EXPECT_THAT(message_of<PeerError>([&] { from->test(); }),
              HasSubstr("rank 2 has left"));
  message_of<PeerError>([&] { to->test(); });
  auto late = room_.send(buffer_of(small_), 1, 2, 5);
  message_of<PeerError>([&] { late->test(); });
  EXPECT_FALSE(any->test());  // rank 0 may still send
  room_.close(0);
  EXPECT_THAT(message_of<PeerError>([&] { any->test(); }),
              HasSubstr("all other ranks have left"));
}

TEST_F(MailroomTest, WhatARankSentBeforeItWentStillArrives) {
  room_.send(buffer_of(small_), 2, 1, 5);
  room_.close(2);
  std::vector<uint8_t> got(10);
  EXPECT_TRUE(room_.recv(buffer_of(got), 2, 1, 5)->test());
  EXPECT_THAT(got, Each(7));
}

// A later send would be kept for a receiver that cannot come any more.
TEST_F(MailroomTest, AFailureEndsAllTransfersOldAndNew) {
  std::vector<uint8_t> got(10);
  auto pending = room_.recv(buffer_of(got), 0, 1, 5);
  room_.send(buffer_of(small_), 0, 1, 6);
  room_.fail({ErrorKind::kAborted, 2, -1, "no more"});
  room_.fail({ErrorKind::kAborted, 1, -1, "too late"});
  auto sent = room_.send(buffer_of(small_), 0, 1, 7);
  auto received = room_.recv(buffer_of(got), 0, 1, 6);
  for (auto* transfer : {pending.get(), sent.get(), received.get()}) {
    EXPECT_THAT(message_of<AbortedError>([&] { transfer->test(); }),
                HasSubstr("rank 2 ended the group: no more"));
  }
  EXPECT_THAT(got, Each(0));
}

}  // namespace
}  // namespace lockstep::detail

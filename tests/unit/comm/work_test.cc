// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/work.h"

#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/caller_state.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

TEST(Work, KnowsWhatItIs) {
  const Work work(OpKind::kBroadcast, 12);
  EXPECT_EQ(work.op(), OpKind::kBroadcast);
  EXPECT_EQ(work.sequence_number(), 12);
  EXPECT_FALSE(work.is_completed());
  EXPECT_FALSE(work.is_success());
  EXPECT_EQ(work.exception(), nullptr);
  EXPECT_EQ(work.duration(), 0s);
}

TEST(Work, CompletesOnce) {
  Work work(OpKind::kBarrier, 0);
  work.complete(5ms);
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.is_success());
  EXPECT_EQ(work.duration(), 5ms);
  work.wait();
  work.wait(0s);
}

TEST(Work, WaitThrowsItsErrorAsOftenAsAsked) {
  Work work(OpKind::kBarrier, 0);
  work.fail(std::make_exception_ptr(PeerError("gone", 3)), 1ms);
  EXPECT_TRUE(work.is_completed());
  EXPECT_FALSE(work.is_success());
  EXPECT_NE(work.exception(), nullptr);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(message_of<PeerError>([&] { work.wait(); }), "gone");
    EXPECT_EQ(message_of<PeerError>([&] { work.wait(1s); }), "gone");
  }
}

TEST(Work, AWaitThatTimesOutMayBeRepeated) {
  Work work(OpKind::kAllReduce, 3);
  EXPECT_THAT(message_of<TimeoutError>([&] { work.wait(2ms); }),
              HasSubstr("all_reduce #3 is still going on after waiting 2 ms"));
  EXPECT_FALSE(work.is_completed());
  work.complete(1ms);
  work.wait(1s);
}

TEST(Work, CompletionRunsContinuationsAndThenWakesWaiters) {
  Work work(OpKind::kBarrier, 0);
  std::atomic<bool> continued{false};
  std::thread waiter([&] {
    work.wait();
    EXPECT_TRUE(continued);
  });
  work.future().on_ready([&](const Future<void>& self) {
    EXPECT_TRUE(self.is_ready());
    std::this_thread::sleep_for(5ms);  // a waiter would be quicker
    continued = true;
  });
  work.complete(1ms);
  waiter.join();
}

TEST(Work, ContinuationsGetItsError) {
  Work work(OpKind::kBarrier, 0);
  auto next = work.future().then([] { ADD_FAILURE() << "was run"; });
  work.fail(std::make_exception_ptr(AbortedError("no more")), 1ms);
  EXPECT_THAT(message_of<AbortedError>([&] { next.get(Deadline::in(1s)); }),
              HasSubstr("no more"));
}

TEST(Work, WaitingOnALaneThreadIsRefusedWhetherItIsDoneOrNot) {
  Work done(OpKind::kBarrier, 7);
  done.complete(1ms);
  const Work open(OpKind::kBarrier, 8);
  const NoWaitScope lane;
  EXPECT_THAT(message_of<UsageError>([&] { done.wait(); }),
              HasSubstr("barrier #7: waiting on a lane thread"));
  message_of<UsageError>([&] { open.wait(1s); });
}

TEST(Work, SourceRankIsForReceivesThatSucceeded) {
  Work received(OpKind::kRecv, -1);
  EXPECT_THAT(message_of<UsageError>([&] { (void)received.source_rank(); }),
              HasSubstr("not succeeded"));
  received.set_source(4);
  received.complete(1ms);
  EXPECT_EQ(received.source_rank(), 4);
  Work sent(OpKind::kSend, -1);
  sent.complete(1ms);
  EXPECT_THAT(message_of<UsageError>([&] { (void)sent.source_rank(); }),
              HasSubstr("this is send"));
}

}  // namespace
}  // namespace lockstep

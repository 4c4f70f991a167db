// SPDX-License-Identifier: Apache-2.0
// What a group does with its backend, watched from below.
#include "comm/engine.h"

#include <thread>

#include <gmock/gmock.h>

#include "support/fake_backend.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::eventually;
using testing::FakeScript;
using ::testing::HasSubstr;
using testing::LogCapture;
using testing::make_fake_group;
using testing::message_of;

class EngineTest : public ::testing::Test {
 protected:
  std::shared_ptr<ProcessGroup> make_group(int rank = 2, int size = 8) {
    GroupOptions options;
    options.name = "ddp";
    options.timeout = timeout_;
    options.notice_after = notice_after_;
    return make_fake_group(script_, rank, size, options);
  }

  const std::shared_ptr<FakeScript> script_ = std::make_shared<FakeScript>();
  Deadline::Duration timeout_ = 60s;
  Deadline::Duration notice_after_ = 60s;
  std::vector<float> x_ = std::vector<float>(6);
};

TEST_F(EngineTest, HandsOperationsDownInOrderWithTheirNumbers) {
  auto group = make_group();
  group->all_reduce(buffer_of(x_), ReduceOp::kMax);
  group->broadcast(buffer_of(x_), 3);
  group->barrier()->wait();
  const auto ops = script_->ops();
  ASSERT_EQ(ops.size(), 3U);
  EXPECT_EQ(ops[0].kind, OpKind::kAllReduce);
  EXPECT_EQ(ops[0].reduce.kind(), ReduceOp::kMax);
  EXPECT_EQ(ops[0].in.data, x_.data());
  EXPECT_EQ(ops[1].root, 3);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(ops[i].signature.sequence, i);
}

TEST_F(EngineTest, RunsOneOperationAtATime) {
  script_->hold_from(0);
  auto group = make_group();
  auto first = group->barrier();
  auto second = group->barrier();
  ASSERT_TRUE(script_->wait_for_ops(1));
  EXPECT_EQ(script_->op_count(), 1);
  EXPECT_FALSE(first->is_completed());
  script_->release();
  second->wait();
  EXPECT_TRUE(first->is_completed());
}

TEST_F(EngineTest, ASyncCallOnAnIdleGroupRunsOnTheCallersThread) {
  const int before = testing::running_threads();
  auto group = make_group();
  CallOptions options;
  options.sync = true;
  std::thread::id where;
  options.finish = [&] { where = std::this_thread::get_id(); };
  group->all_reduce(buffer_of(x_), ReduceOp::kSum, options);
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(testing::running_threads(), before);
  group->barrier()->wait();  // and this one needs the lane
  EXPECT_EQ(testing::running_threads(), before + 1);
}

TEST_F(EngineTest, ASyncCallOnABusyGroupWaitsForItsTurn) {
  script_->hold_from(0);
  auto group = make_group();
  auto first = group->barrier();
  ASSERT_TRUE(script_->wait_for_ops(1));
  std::thread releaser([&] {
    eventually([&] { return group->sequence_number() == 2; });
    script_->release();
  });
  CallOptions options;
  options.sync = true;
  group->barrier(options);
  EXPECT_TRUE(first->is_completed());
  releaser.join();
}

TEST_F(EngineTest, AnErrorSaysWhoWhatWhichAndWhere) {
  script_->fail_at(1, std::make_exception_ptr(PeerError("it hung up", 5)));
  auto group = make_group();
  group->barrier();
  auto work = group->all_reduce(buffer_of(x_));
  EXPECT_EQ(message_of<PeerError>([&] { work->wait(); }),
            "rank 2: all_reduce #1 on group 'ddp': it hung up");
  try {
    work->wait();
  } catch (const Error& error) {
    EXPECT_EQ(error.context().peer, 5);
    EXPECT_EQ(error.context().sequence, 1);
  }
}

TEST_F(EngineTest, TheFirstFailureEndsTheGroup) {
  script_->hold_from(0);
  script_->fail_at(0,
                   std::make_exception_ptr(SystemError("no route", ENETDOWN)));
  auto group = make_group();
  auto first = group->barrier();
  auto queued = group->all_reduce(buffer_of(x_));
  auto step = group->post([] { ADD_FAILURE() << "a step was run"; });
  script_->release();
  message_of<SystemError>([&] { first->wait(); });
  try {
    queued->wait();
    ADD_FAILURE() << "no error";
  } catch (const AbortedError& error) {
    EXPECT_THAT(describe(error.cause()), HasSubstr("no route"));
    EXPECT_THAT(error.what(), HasSubstr("barrier #0"));
  }
  message_of<AbortedError>([&] { step->wait(); });
  message_of<AbortedError>([&] { group->barrier(); });
  message_of<AbortedError>([&] { group->send(buffer_of(x_), 0); });
  EXPECT_THAT(describe(group->failure()), HasSubstr("no route"));
  // The backend ran nothing after that, and was told why, once.
  EXPECT_EQ(script_->op_count(), 1);
  const auto told = script_->interrupts();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, ErrorKind::kSystem);
  EXPECT_EQ(told[0].by, 2);
  EXPECT_THAT(told[0].text, HasSubstr("no route"));
}

// The error that a call throws is the one the group keeps: adding to it on the
// way up would be a race with whoever reads it.
TEST_F(EngineTest, TheFailureMayBeReadWhileACallThrowsIt) {
  script_->fail_at(0, std::make_exception_ptr(PeerError("gone", 1)));
  auto group = make_group();
  std::atomic<int> reads{0};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done || reads == 0) {
      const auto failure = group->failure();
      if (!failure) continue;
      EXPECT_THAT(describe(failure), HasSubstr("gone"));
      ++reads;
    }
  });
  message_of<PeerError>([&] { group->duplicate("copy"); });
  done = true;
  reader.join();
}

TEST_F(EngineTest, ForeignExceptionsOfABackendArePassedOn) {
  script_->fail_at(0, std::make_exception_ptr(std::runtime_error("odd")));
  auto group = make_group();
  auto work = group->barrier();
  EXPECT_EQ(message_of<std::runtime_error>([&] { work->wait(); }), "odd");
  EXPECT_NE(group->failure(), nullptr);
}

TEST_F(EngineTest, AbortInterruptsTheBackend) {
  script_->hold_from(0);
  auto group = make_group();
  auto work = group->barrier();
  ASSERT_TRUE(script_->wait_for_ops(1));
  group->abort("no more");
  EXPECT_THAT(message_of<AbortedError>([&] { work->wait(); }),
              HasSubstr("no more"));
  group->abort("again");  // the first reason counts
  ASSERT_EQ(script_->interrupts().size(), 1U);
  EXPECT_EQ(script_->interrupts()[0].text, "aborted: no more");
}

TEST_F(EngineTest, AFinishThatThrowsFailsItsWorkOnly) {
  auto group = make_group();
  for (const bool sync : {false, true}) {
    CallOptions options;
    options.sync = sync;
    options.finish = [] { throw UsageError("cannot unpack"); };
    EXPECT_THAT(
        message_of<UsageError>([&] {
          group->all_reduce(buffer_of(x_), ReduceOp::kSum, options)->wait();
        }),
        HasSubstr("cannot unpack"));
  }
  group->barrier()->wait();
  EXPECT_EQ(group->failure(), nullptr);
}

TEST_F(EngineTest, AFinishIsNotRunWhenTheOperationFailed) {
  script_->fail_at(0, std::make_exception_ptr(PeerError("gone", 1)));
  auto group = make_group();
  CallOptions options;
  options.finish = [] { ADD_FAILURE() << "was run"; };
  auto work = group->all_reduce(buffer_of(x_), ReduceOp::kSum, options);
  message_of<PeerError>([&] { work->wait(); });
}

TEST_F(EngineTest, SaysWhomItWaitsFor) {
  LogCapture log;
  notice_after_ = 20ms;
  script_->hold_from(0);
  script_->set_late({1, 4});
  auto group = make_group();
  auto work = group->all_reduce(buffer_of(x_));
  EXPECT_TRUE(eventually([&] { return log.count("waiting") >= 2; }));
  script_->release();
  work->wait();
  const std::string line = log.lines().front();
  EXPECT_THAT(line, HasSubstr("rank 2: all_reduce #0 (sum) of float32 [6] on "
                              "group 'ddp' has been waiting"));
  EXPECT_THAT(line, HasSubstr("for ranks 1, 4; it gives up in"));
}

TEST_F(EngineTest, TheTimeoutIsTheCallsOrElseTheGroups) {
  timeout_ = 30ms;
  script_->hold_from(0);
  auto group = make_group();
  auto work = group->barrier();
  EXPECT_THAT(message_of<TimeoutError>([&] { work->wait(); }),
              HasSubstr("30 ms"));
  group = make_group();
  CallOptions options;
  options.timeout = 40ms;
  work = group->barrier(options);
  EXPECT_THAT(message_of<Error>([&] { work->wait(); }), HasSubstr("rank 2"));
}

TEST_F(EngineTest, TheDestructorCompletesWhatWasLaunched) {
  auto group = make_group();
  std::vector<std::shared_ptr<Work>> works;
  for (int i = 0; i < 20; ++i) works.push_back(group->barrier());
  group.reset();
  for (const auto& work : works) EXPECT_TRUE(work->is_success());
  EXPECT_TRUE(script_->is_destroyed());
}

TEST_F(EngineTest, TheDestructorOfAFailedGroupRunsNothing) {
  script_->hold_from(0);
  auto group = make_group();
  for (int i = 0; i < 5; ++i) group->barrier();
  ASSERT_TRUE(script_->wait_for_ops(1));
  group->abort("enough");
  group.reset();
  EXPECT_EQ(script_->op_count(), 1);
}

TEST_F(EngineTest, AGroupDestroyedOnItsOwnLaneEndsElsewhere) {
  auto group = make_group();
  std::atomic<bool> alone{false};
  auto done = group->post([&alone, kept = group]() mutable {
    eventually([&] { return alone.load(); });
    kept.reset();
  });
  group.reset();
  alone = true;
  done->wait();
  EXPECT_TRUE(eventually([&] { return script_->is_destroyed(); }));
}

TEST_F(EngineTest, RefusesARankThatIsNotOne) {
  for (const auto& [rank, size] : {std::pair(-1, 2), {2, 2}, {0, 0}}) {
    EXPECT_THAT(message_of<UsageError>([&, r = rank, s = size] {
                  make_fake_group(script_, r, s);
                }),
                HasSubstr("is not one of"));
  }
}

TEST_F(EngineTest, AnErrorOfTheFactorySaysWhere) {
  GroupOptions options;
  options.name = "ddp";
  EXPECT_THAT(message_of<SystemError>([&] {
                ProcessGroup::make(
                    [](const GroupPlace&) -> std::unique_ptr<Backend> {
                      throw SystemError("no socket", EMFILE);
                    },
                    nullptr, 1, 2, options);
              }),
              HasSubstr("rank 1: making the group on group 'ddp'"));
}

// ---- Point to point.

TEST_F(EngineTest, ATransferEndsWhenTheBellRings) {
  auto group = make_group();
  auto received = group->recv(buffer_of(x_), 3);
  auto sent = group->send(buffer_of(x_), 4);
  EXPECT_FALSE(received->is_completed());
  EXPECT_EQ(script_->transfer_count(), 2);
  script_->finish_transfers();
  received->wait();
  sent->wait();
  EXPECT_EQ(received->source_rank(), 3);
  EXPECT_EQ(script_->transfer_count(), 0);
}

TEST_F(EngineTest, ATransferThatTimesOutIsWithdrawn) {
  auto group = make_group();
  CallOptions options;
  options.timeout = 20ms;
  for (const bool sync : {false, true}) {
    options.sync = sync;
    EXPECT_EQ(message_of<TimeoutError>(
                  [&] { group->recv(buffer_of(x_), 3, 0, options)->wait(); }),
              "rank 2: recv on group 'ddp': timed out after 20 ms: rank 3 has "
              "not sent with tag 0");
    EXPECT_EQ(script_->transfer_count(), 0);
  }
  EXPECT_EQ(group->failure(), nullptr);
}

TEST_F(EngineTest, ATransfersErrorDoesNotEndTheGroup) {
  auto group = make_group();
  auto sent = group->send(buffer_of(x_), 4);
  script_->finish_transfers(std::make_exception_ptr(PeerError("gone", 4)));
  EXPECT_THAT(message_of<PeerError>([&] { sent->wait(); }),
              HasSubstr("rank 2: send on group 'ddp': gone"));
  group->barrier()->wait();
}

TEST_F(EngineTest, SaysWhatATransferWaitsFor) {
  LogCapture log;
  notice_after_ = 20ms;
  auto group = make_group();
  auto received = group->recv_any(buffer_of(x_));
  EXPECT_TRUE(eventually([&] {
    return log.count("rank 2: recv on group 'ddp' has been waiting") > 0;
  }));
  EXPECT_GE(log.count("nobody has sent with tag"), 1);
  script_->finish_transfers();
  received->wait();
}

TEST_F(EngineTest, TheDestructorWithdrawsReceivesAndWaitsForSends) {
  auto group = make_group();
  auto received = group->recv(buffer_of(x_), 3);
  group.reset();
  EXPECT_THAT(message_of<AbortedError>([&] { received->wait(); }),
              HasSubstr("withdrawn"));
  group = make_group();
  auto sent = group->send(buffer_of(x_), 3);
  std::thread finisher([&] { script_->finish_transfers(); });
  group.reset();
  finisher.join();
  EXPECT_TRUE(sent->is_success());
}

TEST_F(EngineTest, ShutdownWaitsForSends) {
  auto group = make_group();
  auto sent = group->send(buffer_of(x_), 3);
  EXPECT_THAT(
      message_of<TimeoutError>([&] { group->shutdown(Deadline::in(20ms)); }),
      HasSubstr("rank 2: shutdown on group 'ddp'"));
  script_->finish_transfers();
  group->shutdown(Deadline::in(10s));
  EXPECT_TRUE(sent->is_success());
}

TEST_F(EngineTest, AllocateGoesThroughTheLane) {
  auto group = make_group();
  group->barrier();
  const auto memory = group->allocate(100);
  EXPECT_EQ(memory.size(), 100U);
  EXPECT_EQ(script_->ops().back().kind, OpKind::kAllocate);
  EXPECT_EQ(script_->ops().back().signature.sequence, 1U);
}

}  // namespace
}  // namespace lockstep

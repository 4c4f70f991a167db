// SPDX-License-Identifier: Apache-2.0
// Nothing hangs: ranks that are late, that abort, that leave.
#include <atomic>
#include <thread>

#include "contract/backend_contract.h"
#include "support/tally.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::LogCapture;
using testing::message_of;
using testing::RankTeam;
using testing::Tally;

TEST_P(BackendContract, ATimeoutOfACallIsHonoured) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    if (world.rank() == 0) {
      const auto start = Deadline::Clock::now();
      const auto text = message_of<TimeoutError>(
          [&] { group->barrier(with_timeout(80ms))->wait(); });
      const auto took = Deadline::Clock::now() - start;
      EXPECT_GE(took, 80ms);
      EXPECT_LT(took, kAtOnce);
      EXPECT_THAT(text, HasSubstr("80 ms"));
      EXPECT_THAT(text, HasSubstr("rank 1"));
      EXPECT_THAT(text, HasSubstr("rank 0: barrier #0 on group 'world/"));
    }
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, TheTimeoutOfAGroupIsForCallsWithoutOne) {
  GroupOptions options;
  options.timeout = 100ms;
  RankTeam team(GetParam(), 2, options);
  team.run([&](ProcessGroup& group) {
    const Quickly quickly;
    if (group.rank() == 1) return;
    std::vector<float> x(1);
    EXPECT_THAT(message_of<TimeoutError>(
                    [&] { group.all_reduce(buffer_of(x))->wait(); }),
                HasSubstr("100 ms"));
  });
}

// An operation's time begins with its turn.
TEST_P(BackendContract, TimeInTheQueueDoesNotCount) {
  run_ranks(2, [](ProcessGroup& group) {
    auto slow = group.post([] { std::this_thread::sleep_for(600ms); });
    auto work = group.barrier(with_timeout(500ms));
    // Not done in time, and it goes on.
    EXPECT_THAT(message_of<TimeoutError>([&] { work->wait(1ms); }),
                HasSubstr("may be waited for again"));
    work->wait(60s);
  });
}

TEST_P(BackendContract, ALateRankIsNoticedNamedAndThenGivenUp) {
  LogCapture log;
  GroupOptions options;
  options.timeout = 1s;
  options.notice_after = 100ms;
  options.name = "ddp";
  std::atomic<int> gave_up{0};
  run_ranks(
      3,
      [&](ProcessGroup& group) {
        const Quickly quickly;
        group.barrier()->wait();  // all threads are up
        std::vector<float> x = {1};
        if (group.rank() != 2) {
          const auto text = message_of<TimeoutError>(
              [&] { group.all_reduce(buffer_of(x))->wait(); });
          ++gave_up;
          EXPECT_THAT(text, HasSubstr("waiting for rank 2;"));
          EXPECT_THAT(text, HasSubstr("after 1 s"));
          EXPECT_THAT(text, HasSubstr("all_reduce #1 on group 'ddp'"));
        } else {
          EXPECT_TRUE(eventually([&] { return gave_up >= 2; }));
          EXPECT_THAT(message_of<AbortedError>(
                          [&] { group.all_reduce(buffer_of(x))->wait(); }),
                      HasSubstr("timed out after 1 s"));
        }
        EXPECT_THAT(x, ElementsAre(1.0F));
      },
      options);
  EXPECT_GE(log.count("all_reduce #1 (sum) of float32 [1] on group 'ddp' has "
                      "been waiting"),
            2);
  EXPECT_GE(log.count("for rank 2; it gives up in"), 2);
}

TEST_P(BackendContract, AbortFailsEverythingPendingOnAllRanks) {
  Tally launched(GetParam());
  run_ranks(4, [&](ProcessGroup& group) {
    const Quickly quickly;
    if (group.rank() == 3) {  // whose absence holds up the others
      std::vector<float> x(1);
      auto pending = group.recv(buffer_of(x), 0);
      EXPECT_TRUE(eventually([&] { return launched.count() >= 3; }));
      group.abort("the disk is full");
      EXPECT_THAT(message_of<AbortedError>([&] { pending->wait(); }),
                  HasSubstr("the disk is full"));
    } else {
      std::vector<std::vector<float>> values(5, std::vector<float>(100));
      std::vector<std::shared_ptr<Work>> works;
      for (auto& one : values)
        works.push_back(group.all_reduce(buffer_of(one)));
      works.push_back(group.recv(buffer_of(values[0]), 3));
      launched.add_one();
      for (const auto& work : works) {
        EXPECT_THAT(message_of<AbortedError>([&] { work->wait(); }),
                    HasSubstr("the disk is full"));
        EXPECT_TRUE(work->is_completed());
        EXPECT_FALSE(work->is_success());
      }
    }
    ASSERT_NE(group.failure(), nullptr);
    std::vector<float> x(1);
    try {
      group.all_reduce(buffer_of(x));
      ADD_FAILURE() << "a failed group took a call";
    } catch (const AbortedError& error) {
      EXPECT_NE(error.cause(), nullptr);
      EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
    }
    message_of<AbortedError>([&] { group.send(buffer_of(x), 0); });
    message_of<AbortedError>([&] { group.post([] {}); });
    message_of<AbortedError>([&] { group.monitored_barrier(1s); });
    message_of<AbortedError>([&] { group.split(0); });
    message_of<AbortedError>([&] { group.shutdown(Deadline::in(1s)); });
  });
}

TEST_P(BackendContract, AbortWorksFromAnyThread) {
  RankTeam team(GetParam(), 2);
  std::atomic<bool> waiting{false};
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load(); }));
    team.group(0).abort("from outside");
  });
  team.run([&](ProcessGroup& group) {
    const Quickly quickly;
    if (group.rank() == 1) return;
    waiting = true;
    EXPECT_THAT(message_of<AbortedError>([&] { group.barrier(in_sync()); }),
                HasSubstr("from outside"));
  });
  other.join();
}

// A rank that has nothing pending hears of it when it touches the group.
TEST_P(BackendContract, AnAbortElsewhereIsFoundAtTheNextCall) {
  run_ranks(3, [](ProcessGroup& world) {
    const Quickly quickly;
    for (int call = 0; call < 4; ++call) {
      auto group = short_group(world);
      if (world.rank() == 0) group->abort("no more");
      world.barrier()->wait();
      std::vector<float> x(1);
      const auto text = message_of<AbortedError>([&] {
        switch (call) {
          case 0:
            group->barrier()->wait();
            break;
          case 1:
            group->send(buffer_of(x), group->rank())->wait();
            break;
          case 2:
            group->recv(buffer_of(x), group->rank())->wait();
            break;
          default:
            group->allocate(8);
        }
      });
      EXPECT_THAT(text, HasSubstr("no more")) << call;
      world.barrier()->wait();
    }
  });
}

// Even what had been delivered: after an abort nothing succeeds any more.
TEST_P(BackendContract, AMessageIsNotReceivedAfterAnAbort) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    std::vector<float> x(1);
    if (world.rank() == 0) {
      group->send(buffer_of(x), 1)->wait();
      group->abort("no more");
    }
    world.barrier()->wait();
    if (world.rank() == 1) {
      message_of<AbortedError>([&] { group->recv(buffer_of(x), 0)->wait(); });
    }
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, ARankThatLeavesIsNamedAtOnce) {
  GroupOptions options;
  options.timeout = 60s;
  RankTeam team(GetParam(), 3, options);
  Tally waiting(GetParam());
  team.run([&](ProcessGroup& group) {
    const Quickly quickly;
    const int rank = group.rank();
    if (rank == 1) {
      EXPECT_TRUE(eventually([&] { return waiting.count() >= 2; }));
      team.take_group(rank).reset();
      return;
    }
    std::vector<float> x(1);
    auto from_it = group.recv(buffer_of(x), 1);
    auto work = group.barrier();
    waiting.add_one();
    const auto text = message_of<PeerError>([&] { work->wait(); });
    EXPECT_THAT(text, HasSubstr("rank 1 has left the group"));
    // A receive ends too, by that or by the end of this group.
    EXPECT_TRUE(from_it->future().wait(Deadline::in(10s)));
    EXPECT_FALSE(from_it->is_success());
    try {
      work->wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.context().peer, 1);
    }
  });
}

TEST_P(BackendContract, ARankThatLeftIsNamedByTheNextCall) {
  run_ranks(3, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    group->barrier()->wait();
    if (world.rank() == 0) group.reset();
    world.barrier()->wait();
    if (world.rank() != 0) {
      std::vector<float> x(100'000);
      EXPECT_THAT(
          message_of<PeerError>([&] { group->send(buffer_of(x), 0)->wait(); }),
          HasSubstr("rank 0"));
      EXPECT_THAT(message_of<PeerError>([&] { group->barrier()->wait(); }),
                  HasSubstr("rank 0"));
    }
    world.barrier()->wait();
  });
}

// The last operation has succeeded for all or for none, however quickly
// somebody leaves after it.
TEST_P(BackendContract, LeavingAfterTheLastCallDisturbsNobody) {
  run_ranks(4, [](ProcessGroup& world) {
    for (int round = 0; round < 30; ++round) {
      auto group = short_group(world);
      std::vector<int32_t> x(round % 2 == 0 ? 1 : 30'000, 1);
      group->all_reduce(buffer_of(x))->wait();
      group.reset();
      EXPECT_TRUE(all_are(x, 4));
    }
  });
}

TEST_P(BackendContract, DestroyingAFailedGroupDoesNotWait) {
  RankTeam team(GetParam(), 2);
  team.run([&](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    if (world.rank() == 0) {
      std::vector<float> x(100'000);
      std::vector<std::shared_ptr<Work>> works;
      for (int i = 0; i < 5; ++i) works.push_back(group->barrier());
      works.push_back(group->send(buffer_of(x), 1));
      group->abort("enough");
      group.reset();
      for (const auto& work : works) EXPECT_FALSE(work->is_success());
    }
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, AContinuationGetsTheErrorOfItsWork) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    auto work = group->barrier(with_timeout(5s));
    if (world.rank() == 0) group->abort("no more");
    bool ran = false;
    auto next = work->future().then([&] { ran = true; });
    try {
      next.get(Deadline::in(10s));
      EXPECT_TRUE(ran);  // the barrier was quicker than the abort
    } catch (const AbortedError& error) {
      EXPECT_FALSE(ran);
      EXPECT_THAT(error.what(), HasSubstr("no more"));
    }
    world.barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What every backend promises about order: numbers, barriers, continuations,
// local steps, and the end of a group.
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "contract/backend_contract.h"
#include "support/tally.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RankTeam;
using testing::Tally;

TEST_P(BackendContract, SequenceNumbersStartAtZeroAndGrowByOne) {
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_EQ(group.sequence_number(), 0);
    std::vector<float> x(1);
    EXPECT_EQ(group.all_reduce(buffer_of(x))->sequence_number(), 0);
    EXPECT_EQ(group.barrier(in_sync())->sequence_number(), 1);
    EXPECT_EQ(group.post([] {})->sequence_number(), -1);
    EXPECT_EQ(group.send(buffer_of(x), group.rank())->sequence_number(), -1);
    group.recv(buffer_of(x), group.rank())->wait();
    EXPECT_EQ(group.broadcast(buffer_of(x), 0)->sequence_number(), 2);
    EXPECT_EQ(group.sequence_number(), 3);
    group.barrier()->wait();
  });
}

TEST_P(BackendContract, ABadCallDoesNotMoveTheSequence) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<float> x = {1};
    // One rank alone makes mistakes; it stays in step.
    if (group.rank() == 1) {
      message_of<UsageError>([&] { group.broadcast(buffer_of(x), 99); });
      message_of<UsageError>([&] { group.send(buffer_of(x), 0, -1); });
      message_of<UsageError>([&] { group.split(-2); });
      message_of<UsageError>([&] { group.duplicate(""); });
    }
    EXPECT_EQ(group.sequence_number(), 0);
    group.all_reduce(buffer_of(x))->wait();
    EXPECT_THAT(x, ElementsAre(3.0F));
  });
}

TEST_P(BackendContract, ABarrierWaitsForWhatWasLaunchedBefore) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<std::vector<int32_t>> values(30);
    for (auto& one : values) {
      one.assign(2000, 1);
      group.all_reduce(buffer_of(one));  // the handle is dropped
    }
    group.barrier()->wait();
    for (const auto& one : values) EXPECT_THAT(one, Each(3));
  });
}

TEST_P(BackendContract, NobodyLeavesABarrierBeforeAllHaveCome) {
  Tally came(GetParam());
  run_ranks(4, [&](ProcessGroup& group) {
    for (int round = 1; round <= 50; ++round) {
      came.add_one();
      group.barrier(in_sync());
      EXPECT_GE(came.count(), round * group.size());
    }
  });
}

TEST_P(BackendContract, WorksCompleteInTheOrderOfTheirLaunch) {
  run_ranks(2, [](ProcessGroup& group) {
    std::mutex mutex;
    std::vector<int64_t> order;
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 40; ++i) values.emplace_back(i % 2 == 0 ? 9000 : 1);
    std::vector<std::shared_ptr<Work>> works;
    for (auto& one : values) {
      works.push_back(group.all_reduce(buffer_of(one)));
      works.back()->future().on_ready([&, work = works.back().get()](auto&) {
        const std::lock_guard lock(mutex);
        order.push_back(work->sequence_number());
      });
    }
    for (const auto& work : works) work->wait();
    // A continuation that came after the completion ran here, at once, and may
    // have overtaken one; those that ran on the lane are in order.
    ASSERT_EQ(order.size(), works.size());
    for (const auto& work : works) {
      EXPECT_TRUE(work->is_completed());
      EXPECT_TRUE(work->is_success());
      EXPECT_GT(work->duration().count(), 0);
    }
  });
}

TEST_P(BackendContract, ALaterWorkIsNeverDoneBeforeAnEarlierOne) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> large(500'000);
    std::vector<float> small(1);
    for (int i = 0; i < 20; ++i) {
      auto first = group.all_reduce(buffer_of(large));
      auto second = group.all_reduce(buffer_of(small));
      while (!second->is_completed()) std::this_thread::yield();
      EXPECT_TRUE(first->is_completed());
    }
  });
}

TEST_P(BackendContract, PostedStepsRunBetweenCollectives) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<int32_t> x = {1};
    int32_t seen = 0;
    group.all_reduce(buffer_of(x));
    auto step = group.post([&] {
      seen = x[0];
      x[0] = 10;
    });
    auto after = group.all_reduce(buffer_of(x));
    after->wait();
    EXPECT_TRUE(step->is_success());
    EXPECT_EQ(step->op(), OpKind::kLocalStep);
    EXPECT_EQ(seen, 2);
    EXPECT_EQ(x[0], 20);
  });
}

TEST_P(BackendContract, APostedStepThatThrowsFailsItsWorkOnly) {
  run_ranks(2, [](ProcessGroup& group) {
    auto step = group.post([] { throw std::runtime_error("no luck"); });
    EXPECT_THAT(message_of<std::runtime_error>([&] { step->wait(); }),
                HasSubstr("no luck"));
    group.barrier()->wait();
  });
}

TEST_P(BackendContract, FinishRunsBeforeTheWorkCompletes) {
  run_ranks(2, [](ProcessGroup& group) {
    for (const bool sync : {false, true}) {
      std::vector<int32_t> x = {1};
      int32_t seen = 0;
      CallOptions options;
      options.sync = sync;
      options.finish = [&] { seen = x[0]; };
      group.all_reduce(buffer_of(x), ReduceOp::kSum, options)->wait();
      EXPECT_EQ(seen, 2);
    }
  });
}

TEST_P(BackendContract, TheKeepaliveLivesAsLongAsTheOperation) {
  run_ranks(2, [](ProcessGroup& group) {
    auto memory = std::make_shared<std::vector<float>>(100, 1.0F);
    const std::weak_ptr<std::vector<float>> watch = memory;
    CallOptions options;
    options.keepalive = memory;
    auto work = group.all_reduce(buffer_of(*memory), ReduceOp::kSum, options);
    options.keepalive.reset();
    memory.reset();
    if (auto still = watch.lock()) work->wait();
    group.barrier()->wait();
    EXPECT_TRUE(eventually([&] { return watch.expired(); }));
  });
}

TEST_P(BackendContract, WaitingOnALaneThreadIsAUsageError) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(1);
    auto other = group.duplicate("other");
    auto pending = group.all_reduce(buffer_of(x));
    std::string in_step;
    std::string in_continuation;
    std::string in_sync_call;
    std::promise<void> attached;  // The barrier cannot end before.
    group.post([&] {
      attached.get_future().wait();
      in_step = message_of<UsageError>([&] { pending->wait(); });
      in_sync_call = message_of<UsageError>([&] { other->barrier(in_sync()); });
    });
    auto last = group.barrier();
    auto done = last->future().then([&] {
      in_continuation = message_of<UsageError>([&] { last->wait(1s); });
      message_of<UsageError>([&] { other->monitored_barrier(); });
      message_of<UsageError>([&] { other->shutdown(Deadline::in(1s)); });
      message_of<UsageError>([&] { other->allocate(8); });
      message_of<UsageError>([&] { other->split(0); });
    });
    attached.set_value();
    done.wait(Deadline::in(10s));
    EXPECT_THAT(in_step, HasSubstr("lane thread"));
    EXPECT_THAT(in_sync_call, HasSubstr("lane thread"));
    EXPECT_THAT(in_continuation, HasSubstr("lane thread"));
    EXPECT_EQ(other->sequence_number(), 0);
  });
}

TEST_P(BackendContract, LaunchingOnALaneThreadIsAUsageError) {
  run_ranks(2, [](ProcessGroup& group) {
    auto other = group.duplicate("other");
    std::vector<int32_t> x = {1};
    std::promise<void> attached;
    std::string in_step;
    group.post([&] {
      attached.get_future().wait();
      in_step =
          message_of<UsageError>([&] { other->all_reduce(buffer_of(x)); });
    });
    auto last = group.barrier();
    auto chained = last->future().then(
        [&] { return other->all_reduce(buffer_of(x))->future(); });
    attached.set_value();
    EXPECT_THAT(message_of<UsageError>([&] { chained.get(Deadline::in(10s)); }),
                HasSubstr("say in `after` what it follows"));
    EXPECT_THAT(in_step, HasSubstr("lane thread"));
    EXPECT_EQ(other->sequence_number(), 0);
    other->barrier()->wait();
  });
}

TEST_P(BackendContract, TwoThreadsLaunchingAtOnceIsAUsageError) {
  RankTeam team(GetParam(), 1);
  std::atomic<bool> seen{false};
  const auto until = Deadline::in(20s);
  testing::run_threads(2, [&](int) {
    while (!seen && !until.passed()) {
      try {
        for (int i = 0; i < 100; ++i) team.group(0).post([] {});
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("another thread"));
        EXPECT_THAT(error.what(), HasSubstr("duplicate()"));
        seen = true;
      }
    }
  });
  EXPECT_TRUE(seen);
}

TEST_P(BackendContract, DestroyingAHealthyGroupCompletesWhatWasLaunched) {
  RankTeam team(GetParam(), 3);
  team.run([&](ProcessGroup& world) {
    auto group = short_group(world);
    std::vector<std::vector<int32_t>> values(20);
    std::vector<std::shared_ptr<Work>> works;
    for (auto& one : values) {
      one.assign(3000, 1);
      works.push_back(group->all_reduce(buffer_of(one)));
    }
    group.reset();
    for (const auto& work : works) EXPECT_TRUE(work->is_success());
    for (const auto& one : values) EXPECT_THAT(one, Each(3));
  });
}

TEST_P(BackendContract, AGroupMayBeDestroyedByAContinuationOfItsOwn) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    const std::weak_ptr<ProcessGroup> watch = group;
    std::vector<float> x(100'000);
    auto work = group->all_reduce(buffer_of(x));
    std::atomic<bool> alone{false};
    auto done = group->post([&alone, kept = group]() mutable {
      // From here on this step has the only reference.
      EXPECT_TRUE(eventually([&] { return alone.load(); }));
      kept.reset();
    });
    group.reset();
    alone = true;
    done->wait();
    EXPECT_TRUE(work->is_success());
    EXPECT_TRUE(eventually([&] { return watch.expired(); }));
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, ShutdownCompletesWhatWasLaunchedAndCloses) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<int32_t> x(1000, 1);
    std::vector<int32_t> mail(100'000, group.rank());
    std::vector<int32_t> letter(100'000);
    const int n = group.size();
    const int next = (group.rank() + 1) % n;
    auto received = group.recv(buffer_of(letter), (next + n - 2) % n);
    group.all_reduce(buffer_of(x));
    group.send(buffer_of(mail), next);
    received->wait();
    group.shutdown(Deadline::in(10s));
    EXPECT_THAT(x, Each(3));
    EXPECT_EQ(group.failure(), nullptr);
    const auto refused = [](const auto& call) {
      EXPECT_THAT(message_of<UsageError>(call), HasSubstr("shut down"));
    };
    refused([&] { group.all_reduce(buffer_of(x)); });
    refused([&] { group.barrier(in_sync()); });
    refused([&] { group.send(buffer_of(mail), next); });
    refused([&] { group.recv(buffer_of(mail), next); });
    refused([&] { group.post([] {}); });
    refused([&] { group.split(0); });
    refused([&] { group.allocate(1); });
    refused([&] { group.monitored_barrier(); });
    group.shutdown(Deadline::in(10s));  // again: nothing to do
  });
}

TEST_P(BackendContract, ShutdownTimesOutWhenAPeerIsMissing) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    if (group->rank() == 0) {
      group->barrier();
      EXPECT_THAT(message_of<TimeoutError>(
                      [&] { group->shutdown(Deadline::in(50ms)); }),
                  HasSubstr("shutdown"));
      group->abort("enough");
    }
    world.barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What every backend promises about the monitored barrier, which is made of
// messages.
#include "contract/backend_contract.h"
#include "support/tally.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RankTeam;
using testing::Tally;

TEST_P(BackendContract, AMonitoredBarrierLetsAllThroughWhenAllCome) {
  Tally came(GetParam());
  run_ranks(4, [&](ProcessGroup& group) {
    for (int round = 1; round <= 10; ++round) {
      came.add_one();
      group.monitored_barrier(10s, round % 2 == 0);
      EXPECT_GE(came.count(), round * group.size());
    }
    EXPECT_EQ(group.sequence_number(), 10);
  });
}

// Rank 1 and 3 stay away until the others have been told.
void miss_a_monitored_barrier(const testing::BackendKind& kind,
                              bool wait_all_ranks, const std::string& named) {
  RankTeam team(kind, 4);
  Tally told(kind);
  team.run([&](ProcessGroup& group) {
    const Quickly quickly;
    group.barrier()->wait();  // all threads are up
    const bool late = group.rank() % 2 == 1;
    if (late) {
      EXPECT_TRUE(testing::eventually([&] { return told.count() >= 2; }));
    }
    const auto start = Deadline::Clock::now();
    const auto text = message_of<TimeoutError>(
        [&] { group.monitored_barrier(500ms, wait_all_ranks); });
    const auto took = Deadline::Clock::now() - start;
    told.add_one();
    EXPECT_THAT(text, HasSubstr("monitored_barrier #1"));
    EXPECT_THAT(text, HasSubstr(named + " did not come within 500 ms"));
    if (group.rank() == 0) {
      EXPECT_GE(took, 500ms);
      EXPECT_THAT(text, HasSubstr("rank 0: "));
    } else {
      EXPECT_THAT(text, HasSubstr("rank 0 says"));
    }
    EXPECT_EQ(group.failure(), nullptr);
    group.monitored_barrier(10s);  // all are in step again
    std::vector<int32_t> x = {1};
    group.all_reduce(buffer_of(x))->wait();
    EXPECT_THAT(x, ElementsAre(4));
  });
}

TEST_P(BackendContract, AMonitoredBarrierNamesTheLowestMissingRank) {
  miss_a_monitored_barrier(GetParam(), false, "rank 1");
}

TEST_P(BackendContract, AMonitoredBarrierNamesAllMissingRanksIfAsked) {
  miss_a_monitored_barrier(GetParam(), true, "ranks 1, 3");
}

TEST_P(BackendContract, AMonitoredBarrierWithoutRankZeroTellsTheOthers) {
  run_ranks(3, [](ProcessGroup& world) {
    auto group = short_group(world);
    if (world.rank() != 0) {
      const auto text =
          message_of<TimeoutError>([&] { group->monitored_barrier(50ms); });
      EXPECT_THAT(text, HasSubstr("rank 0 did not come"));
    }
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, AMonitoredBarrierNeverMeetsUserTags) {
  run_ranks(3, [](ProcessGroup& group) {
    // Everything a user may have pending, on every tag a barrier could use.
    std::vector<uint8_t> one(1, 7);
    std::vector<std::vector<uint8_t>> boxes(9, std::vector<uint8_t>(1));
    std::vector<std::shared_ptr<Work>> pending;
    const int64_t tags[] = {0, 1, kLastTag};
    size_t box = 0;
    for (const int64_t tag : tags) {
      for (int peer = 0; peer < 3; ++peer) {
        pending.push_back(group.recv(buffer_of(boxes[box++]), peer, tag));
      }
    }
    group.monitored_barrier(10s);
    for (const auto& work : pending) EXPECT_FALSE(work->is_completed());
    group.monitored_barrier(10s);
    for (const int64_t tag : tags) {
      for (int peer = 0; peer < 3; ++peer) {
        group.send(buffer_of(one), peer, tag);
      }
    }
    for (const auto& work : pending) work->wait();
    for (const auto& x : boxes) EXPECT_THAT(x, ElementsAre(7));
  });
}

TEST_P(BackendContract, AMonitoredBarrierWaitsForWhatWasLaunchedBefore) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<int32_t> x(200'000, 1);
    group.all_reduce(buffer_of(x));
    group.monitored_barrier(10s);
    EXPECT_TRUE(all_are(x, 3));
  });
}

// Whoever waits in it hears the reason, not that somebody came too late.
TEST_P(BackendContract, AnAbortEndsAMonitoredBarrierWithItsReason) {
  run_ranks(3, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    if (world.rank() == 2) {
      group->abort("the disk is full");
    } else {
      EXPECT_THAT(
          message_of<AbortedError>([&] { group->monitored_barrier(60s); }),
          HasSubstr("the disk is full"));
    }
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, ARankThatLeftIsNamedByAMonitoredBarrierAtOnce) {
  run_ranks(3, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    if (world.rank() == 2) {
      group.reset();
    } else if (world.rank() == 0) {
      EXPECT_THAT(message_of<PeerError>([&] { group->monitored_barrier(60s); }),
                  HasSubstr("rank 2"));
    } else {
      try {
        group->monitored_barrier(60s);
        ADD_FAILURE() << "nobody said that rank 2 is gone";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("rank 2"));
      }
    }
    world.barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What every backend promises about groups made from groups, and about the
// memory they allocate.
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "contract/backend_contract.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::message_of;

int sum_of_ones(ProcessGroup& group) {
  std::vector<int32_t> x = {1};
  group.all_reduce(buffer_of(x))->wait();
  return x[0];
}

TEST_P(BackendContract, AGroupKnowsItsPlace) {
  GroupOptions options;
  options.name = "ddp";
  options.timeout = 77s;
  run_ranks(
      3,
      [](ProcessGroup& group) {
        EXPECT_EQ(group.size(), 3);
        EXPECT_GE(group.rank(), 0);
        EXPECT_LT(group.rank(), 3);
        EXPECT_EQ(group.name(), "ddp");
        EXPECT_EQ(group.timeout(), 77s);
        EXPECT_STRNE(group.backend_name(), "");
        EXPECT_EQ(group.failure(), nullptr);
      },
      options);
}

TEST_P(BackendContract, SplitMakesAGroupOfEachColor) {
  run_ranks(5, [](ProcessGroup& world) {
    auto half = world.split(world.rank() % 2);
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(half->size(), world.rank() % 2 == 0 ? 3 : 2);
    EXPECT_EQ(half->rank(), world.rank() / 2);
    EXPECT_EQ(half->timeout(), world.timeout());
    std::vector<int32_t> x = {world.rank()};
    half->all_reduce(buffer_of(x))->wait();
    EXPECT_EQ(x[0], world.rank() % 2 == 0 ? 0 + 2 + 4 : 1 + 3);
  });
}

TEST_P(BackendContract, SplitOrdersRanksByKeyAndThenByRank) {
  run_ranks(4, [](ProcessGroup& world) {
    auto turned = world.split(0, -world.rank());
    EXPECT_EQ(turned->rank(), 3 - world.rank());
    auto equal = world.split(3, 8);
    EXPECT_EQ(equal->rank(), world.rank());
    auto odd_first = world.split(1, world.rank() % 2 == 1 ? 0 : 1);
    EXPECT_EQ(odd_first->rank(),
              (std::vector{2, 0, 3, 1}[static_cast<size_t>(world.rank())]));
  });
}

TEST_P(BackendContract, ARankWithoutAColorHasNoGroup) {
  run_ranks(3, [](ProcessGroup& world) {
    const bool out = world.rank() == 1;
    auto rest = world.split(out ? ProcessGroup::kNoGroup : 0);
    EXPECT_EQ(rest == nullptr, out);
    if (rest) {
      EXPECT_EQ(sum_of_ones(*rest), 2);
    }
    EXPECT_EQ(world.split(ProcessGroup::kNoGroup), nullptr);
    EXPECT_EQ(sum_of_ones(world), 3);
  });
}

TEST_P(BackendContract, GroupsNest) {
  run_ranks(8, [](ProcessGroup& world) {
    auto half = world.split(world.rank() / 4);
    auto quarter = half->split(half->rank() / 2);
    auto copy = quarter->duplicate("copy");
    auto alone = copy->split(copy->rank());
    EXPECT_EQ(sum_of_ones(world), 8);
    EXPECT_EQ(sum_of_ones(*half), 4);
    EXPECT_EQ(sum_of_ones(*quarter), 2);
    EXPECT_EQ(sum_of_ones(*copy), 2);
    EXPECT_EQ(sum_of_ones(*alone), 1);
    const std::set<std::string> names = {world.name(), half->name(),
                                         quarter->name(), copy->name(),
                                         alone->name()};
    EXPECT_EQ(names.size(), 5U);
    // A parent may go before its children.
    half.reset();
    quarter.reset();
    EXPECT_EQ(sum_of_ones(*copy), 2);
  });
}

TEST_P(BackendContract, DuplicatesOfTheSameNameAreDifferentGroups) {
  run_ranks(2, [](ProcessGroup& world) {
    auto a = world.duplicate("same");
    auto b = world.duplicate("same");
    EXPECT_NE(a->name(), b->name());
    EXPECT_THAT(a->name(), HasSubstr("same"));
    EXPECT_EQ(sum_of_ones(*a), 2);
    EXPECT_EQ(sum_of_ones(*b), 2);
    EXPECT_EQ(a->sequence_number(), 1);
    EXPECT_EQ(world.sequence_number(), 2);
  });
}

TEST_P(BackendContract, DuplicatesWithDifferentNamesAreAMismatch) {
  run_ranks(3, [](ProcessGroup& world) {
    const Quickly quickly;
    const auto text = message_of<MismatchError>(
        [&] { world.duplicate(world.rank() == 2 ? "b" : "a"); });
    EXPECT_THAT(text, HasSubstr("'a'"));
    EXPECT_THAT(text, HasSubstr("'b'"));
    EXPECT_THAT(text, HasSubstr("duplicate"));
  });
}

TEST_P(BackendContract, LanesRunSideBySide) {
  run_ranks(3, [](ProcessGroup& world) {
    auto a = world.duplicate("a");
    auto b = world.duplicate("b");
    // Two threads per rank, each with a lane of its own and its own pace.
    testing::run_threads(2, [&](int i) {
      ProcessGroup& lane = i == 0 ? *a : *b;
      for (int round = 0; round < 50; ++round) {
        std::vector<int32_t> x(i == 0 ? 10 : 10'000, world.rank() + round);
        lane.all_reduce(buffer_of(x))->wait();
        EXPECT_TRUE(all_are(x, 3 * round + 3));
      }
    });
  });
}

TEST_P(BackendContract, OneLaneMayBeStuckWhileAnotherGoesOn) {
  run_ranks(2, [](ProcessGroup& world) {
    auto lane = world.duplicate("lane");
    // Each waits on another lane for what the other does only afterwards.
    if (world.rank() == 0) {
      auto stuck = world.barrier();
      EXPECT_EQ(sum_of_ones(*lane), 2);
      stuck->wait();
    } else {
      EXPECT_EQ(sum_of_ones(*lane), 2);
      world.barrier()->wait();
    }
  });
}

TEST_P(BackendContract, AFailedLaneLeavesTheOthersAlone) {
  run_ranks(2, [](ProcessGroup& world) {
    auto lane = world.duplicate("lane");
    std::vector<float> x(world.rank() == 0 ? 1 : 2);
    message_of<MismatchError>([&] { lane->all_reduce(buffer_of(x))->wait(); });
    EXPECT_NE(lane->failure(), nullptr);
    EXPECT_EQ(world.failure(), nullptr);
    EXPECT_EQ(sum_of_ones(world), 2);
  });
}

TEST_P(BackendContract, AllocatedMemoryIsZeroAndBeginsOnAPage) {
  run_ranks(3, [](ProcessGroup& group) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20}) {
      auto memory = group.allocate(bytes);
      ASSERT_EQ(memory.size(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % page, 0U);
      EXPECT_TRUE(std::all_of(memory.data(), memory.data() + bytes,
                              [](std::byte b) { return b == std::byte{0}; }));
      // Each rank has memory of its own.
      const auto mine = static_cast<std::byte>(group.rank() + 1);
      std::fill_n(memory.data(), bytes, mine);
      group.barrier()->wait();
      EXPECT_EQ(memory.data()[bytes - 1], mine);
      group.barrier()->wait();
    }
    EXPECT_EQ(group.allocate(0).size(), 0U);
  });
}

TEST_P(BackendContract, CollectivesWorkInAllocatedMemory) {
  run_ranks(4, [](ProcessGroup& group) {
    constexpr size_t kCount = 100'000;
    auto memory = group.allocate(kCount * sizeof(float) + 64);
    for (const size_t offset : {size_t{0}, size_t{64}}) {
      const Buffer buffer = memory.buffer(DType::kFloat32, kCount, offset);
      auto* const values = static_cast<float*>(buffer.data);
      std::fill_n(values, kCount, static_cast<float>(group.rank()));
      group.all_reduce(buffer)->wait();
      EXPECT_TRUE(all_are(std::vector<float>(values, values + kCount), 6.0F));
      // With plain memory on the other side.
      std::vector<float> plain(kCount, 1);
      group.all_reduce(buffer, buffer_of(plain), ReduceOp::kMax, {})->wait();
      EXPECT_TRUE(all_are(plain, 6.0F));
    }
  });
}

TEST_P(BackendContract, AllocatedMemoryOutlivesItsGroup) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    auto memory = group->allocate(4096);
    auto copy = memory;
    group.reset();
    memory = {};
    std::fill_n(copy.data(), copy.size(), std::byte{1});
    EXPECT_EQ(copy.data()[4095], std::byte{1});
  });
}

TEST_P(BackendContract, AllocatingDifferentSizesIsAMismatch) {
  run_ranks(3, [](ProcessGroup& group) {
    const Quickly quickly;
    const auto text = message_of<MismatchError>(
        [&] { group.allocate(group.rank() == 1 ? 100 : 200); });
    EXPECT_THAT(text, HasSubstr("100 bytes"));
    EXPECT_THAT(text, HasSubstr("200 bytes"));
  });
}

TEST_P(BackendContract, AllocateWaitsForItsTurn) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<int32_t> x(100'000, 1);
    auto before = group.all_reduce(buffer_of(x));
    auto memory = group.allocate(64);
    EXPECT_TRUE(before->is_success());
    EXPECT_EQ(group.sequence_number(), 2);
  });
}

// Many ranks on few cores: everything once.
TEST_P(BackendContract, SixtyFourRanksWorkTogether) {
  run_ranks(64, [](ProcessGroup& group) {
    const int n = group.size();
    for (const size_t count : {size_t{3}, size_t{20'000}}) {
      std::vector<int32_t> x(count, group.rank());
      group.all_reduce(buffer_of(x))->wait();
      EXPECT_TRUE(all_are(x, n * (n - 1) / 2));
      group.broadcast(buffer_of(x), 63)->wait();
    }
    std::vector<int32_t> mine = {group.rank()};
    std::vector<int32_t> all(64);
    group.all_gather(buffer_of(mine), buffer_of(all))->wait();
    std::vector<int32_t> back(1);
    group.reduce_scatter(buffer_of(all), buffer_of(back), ReduceOp::kAverage)
        ->wait();
    EXPECT_EQ(back[0], group.rank());
    std::vector<int32_t> swapped(64);
    group.all_to_all(buffer_of(all), buffer_of(swapped))->wait();
    EXPECT_THAT(swapped, Each(group.rank()));
    std::vector<size_t> ones(64, 1);
    group.all_to_all(buffer_of(all), buffer_of(swapped), ones, ones)->wait();
    EXPECT_THAT(swapped, Each(group.rank()));
    group.monitored_barrier(60s);
    auto part = group.split(group.rank() % 8);
    EXPECT_EQ(sum_of_ones(*part), 8);
    const int next = (group.rank() + 1) % n;
    group.send(buffer_of(mine), next);
    group.recv(buffer_of(back), (next + n - 2) % n)->wait();
    EXPECT_EQ(back[0], (next + n - 2) % n);
    group.barrier()->wait();
  });
}

// Those that stay are still making their group while it goes.
TEST_P(BackendContract, ARankMayLeaveTheGroupThatTheOthersSplit) {
  for (int i = 0; i < 10; ++i) {
    testing::RankTeam team(GetParam(), 3);
    team.run([&](ProcessGroup& world) {
      const bool stays = world.rank() != 2;
      const auto part = world.split(stays ? 0 : ProcessGroup::kNoGroup, 0);
      if (stays) {
        part->barrier()->wait();
      } else {
        team.take_group(2).reset();
      }
    });
  }
}

}  // namespace
}  // namespace lockstep

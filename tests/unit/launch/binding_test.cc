// SPDX-License-Identifier: Apache-2.0
#include "launch/binding.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/rank_cpus.h"
#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::SizeIs;

// `nodes` memory nodes of `cores` cores. With hyperthreads, core i has the
// cpus i and i + number of cores, as the system numbers them.
Machine machine_of(int nodes, int cores, bool hyperthreads = false) {
  Machine machine;
  const int all = nodes * cores;
  for (int i = 0; i < all; ++i) {
    machine.cores.push_back({i / cores, {i}});
    if (hyperthreads) machine.cores.back().cpus.push_back(i + all);
  }
  return machine;
}

std::vector<std::vector<int>> cpus_of(const BindingPlan& plan) {
  std::vector<std::vector<int>> all;
  for (const auto& rank : plan.ranks) all.push_back(rank.cpus);
  return all;
}

std::vector<int> threads_of(const BindingPlan& plan) {
  std::vector<int> all;
  for (const auto& rank : plan.ranks) all.push_back(rank.threads);
  return all;
}

BindingPlan plan(const Machine& machine, int ranks, BindPolicy policy,
                 std::optional<int> threads = {}) {
  return plan_binding(machine, ranks, policy, threads);
}

std::set<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  }
  return cpus;
}

TEST(BindingPlan, GivesEachRankItsOwnCores) {
  const auto two = plan(machine_of(1, 2), 2, BindPolicy::kCore);
  EXPECT_THAT(cpus_of(two), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(threads_of(two), ElementsAre(1, 1));
  EXPECT_EQ(two.note, "");
}

TEST(BindingPlan, GivesOneRankAllCores) {
  const auto one = plan(machine_of(2, 2), 1, BindPolicy::kCore);
  EXPECT_THAT(cpus_of(one), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(threads_of(one), ElementsAre(4));
}

TEST(BindingPlan, SharesOutAllCoresEvenly) {
  for (int cores = 1; cores <= 17; ++cores) {
    for (int ranks = 1; ranks <= cores; ++ranks) {
      const auto shares = plan(machine_of(1, cores), ranks, BindPolicy::kCore);
      ASSERT_THAT(shares.ranks, SizeIs(ranks));
      std::set<int> used;
      size_t sum = 0;
      for (const auto& rank : shares.ranks) {
        const int size = static_cast<int>(rank.cpus.size());
        EXPECT_GE(size, cores / ranks);
        EXPECT_LE(size, (cores + ranks - 1) / ranks);
        EXPECT_EQ(rank.threads, size);
        used.insert(rank.cpus.begin(), rank.cpus.end());
        sum += rank.cpus.size();
      }
      EXPECT_EQ(sum, used.size()) << "two ranks share a core";
      EXPECT_EQ(static_cast<int>(used.size()), cores);
    }
  }
}

TEST(BindingPlan, SplitsEightCoresAmongThree) {
  auto threads = threads_of(plan(machine_of(1, 8), 3, BindPolicy::kCore));
  std::sort(threads.begin(), threads.end());
  EXPECT_THAT(threads, ElementsAre(2, 3, 3));
}

TEST(BindingPlan, KeepsTheThreadsOfACoreTogether) {
  const auto shares = plan(machine_of(2, 2, true), 2, BindPolicy::kCore);
  // Each rank has a memory node: cores 0 and 1, cores 2 and 3.
  EXPECT_THAT(cpus_of(shares),
              ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
  // One thread per core, not per hyperthread.
  EXPECT_THAT(threads_of(shares), ElementsAre(2, 2));
}

TEST(BindingPlan, GivesRanksWholeMemoryNodes) {
  const auto shares = plan(machine_of(2, 4), 4, BindPolicy::kNuma);
  EXPECT_THAT(cpus_of(shares),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 1, 2, 3),
                          ElementsAre(4, 5, 6, 7), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(threads_of(shares), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(shares.note, "");
}

TEST(BindingPlan, SharesANodesThreadsAmongItsRanks) {
  const auto shares = plan(machine_of(2, 4), 3, BindPolicy::kNuma);
  EXPECT_THAT(cpus_of(shares),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 1, 2, 3),
                          ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(threads_of(shares), ElementsAre(2, 2, 4));
}

TEST(BindingPlan, SpreadsFewRanksOverTheNodes) {
  const auto shares = plan(machine_of(4, 1), 2, BindPolicy::kNuma);
  EXPECT_THAT(cpus_of(shares), ElementsAre(ElementsAre(0), ElementsAre(2)));
}

TEST(BindingPlan, KnowsNodesThatAreNotNumberedFromZero) {
  Machine machine;
  machine.cores = {{1, {4}}, {1, {5}}, {6, {9}}};
  const auto shares = plan(machine, 2, BindPolicy::kNuma);
  EXPECT_THAT(cpus_of(shares), ElementsAre(ElementsAre(4, 5), ElementsAre(9)));
}

TEST(BindingPlan, BindsNobodyWhenAskedTo) {
  const auto free = plan(machine_of(1, 8), 3, BindPolicy::kNone);
  EXPECT_THAT(cpus_of(free), Each(IsEmpty()));
  EXPECT_THAT(threads_of(free), ElementsAre(2, 2, 2));
  EXPECT_EQ(free.note, "");
  const auto many = plan(machine_of(1, 2), 5, BindPolicy::kNone);
  EXPECT_THAT(threads_of(many), ElementsAre(1, 1, 1, 1, 1));
}

TEST(BindingPlan, DoesNotBindMoreRanksThanThereAreCores) {
  for (const auto policy : {BindPolicy::kCore, BindPolicy::kNuma}) {
    const auto crowd = plan(machine_of(1, 2, true), 3, policy);
    EXPECT_THAT(cpus_of(crowd), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
    EXPECT_THAT(threads_of(crowd), ElementsAre(1, 1, 1));
    EXPECT_THAT(crowd.note, HasSubstr("3 ranks on 2 cores"));
  }
  EXPECT_THAT(plan(machine_of(1, 1), 2, BindPolicy::kCore).note,
              HasSubstr("2 ranks on 1 core:"));
}

TEST(BindingPlan, UsesAsManyThreadsAsItIsTold) {
  for (const auto policy :
       {BindPolicy::kCore, BindPolicy::kNuma, BindPolicy::kNone}) {
    const auto told = plan(machine_of(2, 4), 2, policy, 7);
    EXPECT_THAT(threads_of(told), ElementsAre(7, 7));
    EXPECT_EQ(cpus_of(told), cpus_of(plan(machine_of(2, 4), 2, policy)));
  }
  EXPECT_THAT(threads_of(plan(machine_of(1, 1), 2, BindPolicy::kCore, 3)),
              ElementsAre(3, 3));
}

TEST(BindingText, WritesRunsOfCpus) {
  EXPECT_EQ(to_text(std::vector<int>{0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(to_text(std::vector<int>{5}), "5");
  EXPECT_EQ(to_text(std::vector<int>{0, 1}), "0-1");
  EXPECT_EQ(to_text(std::vector<int>{0, 2, 4, 5}), "0,2,4-5");
  EXPECT_EQ(to_text(std::vector<int>{}), "");
}

TEST(FindMachine, SeesTheCpusThisProcessMayUse) {
  const auto machine = find_machine();
  const auto allowed = allowed_cpus();
  ASSERT_FALSE(machine.cores.empty());
  std::set<int> found;
  size_t sum = 0;
  for (const auto& core : machine.cores) {
    EXPECT_FALSE(core.cpus.empty());
    found.insert(core.cpus.begin(), core.cpus.end());
    sum += core.cpus.size();
  }
  EXPECT_EQ(found, allowed);
  EXPECT_EQ(sum, found.size()) << "a cpu belongs to two cores";
  EXPECT_TRUE(std::is_sorted(
      machine.cores.begin(), machine.cores.end(),
      [](const auto& a, const auto& b) { return a.numa < b.numa; }));
}

TEST(FindMachine, RespectsTheAffinityMask) {
  const int last = *allowed_cpus().rbegin();
  // The mask belongs to a thread, and ends with it.
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
    const auto machine = find_machine();
    ASSERT_THAT(machine.cores, SizeIs(1));
    EXPECT_THAT(machine.cores[0].cpus, ElementsAre(last));
  }).join();
}

TEST(RankCpus, AreThoseThatTheLauncherWouldGive) {
  const auto machine = find_machine();
  const auto cpus = rank_cpus(0, "core");
  ASSERT_THAT(cpus, SizeIs(machine.cores.size()));
  for (size_t rank = 0; rank < cpus.size(); ++rank) {
    EXPECT_EQ(cpus[rank], machine.cores[rank].cpus);
  }
  EXPECT_THAT(rank_cpus(3, "none"), Each(IsEmpty()));
  EXPECT_THAT(message_of<UsageError>([] { rank_cpus(1, "moon"); }),
              HasSubstr("core, numa and none, not 'moon'"));
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
// Ranks on backend shm that are killed at any moment: the others are told who
// it was, and of the dead nothing is left.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/rank_job.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Ending;
using testing::RankJob;

void sleep_up_to(std::chrono::microseconds most, std::mt19937& random) {
  std::uniform_int_distribution<int64_t> moment(0, most.count());
  std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
}

TEST(ShmKill, EverySurvivorLearnsWhoDiedWithinASecond) {
  const int trials = testing::full_run() ? 200 : 20;
  std::mt19937 random(testing::announced_seed());
  Deadline::Clock::duration slowest{0};
  for (int trial = 0; trial < trials; ++trial) {
    const auto size = static_cast<int>(2 + random() % 4);
    const auto victim =
        static_cast<int>(random() % static_cast<unsigned>(size));
    const auto program = static_cast<uint32_t>(random());
    SCOPED_TRACE(::testing::Message()
                 << "trial " << trial << ": rank " << victim << " of " << size);
    RankJob job(size, "play", program);
    ASSERT_TRUE(job.wait_for_all("ready"));
    sleep_up_to(50ms, random);
    const auto killed = Deadline::Clock::now();
    job.rank(victim).signal(SIGKILL);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) continue;
      const Ending ending = job.ending(rank);
      EXPECT_EQ(ending.kind, "peer error") << ending.text;
      EXPECT_EQ(ending.peer, victim) << ending.text;
      EXPECT_LT(ending.when - killed, 1s);
      slowest = std::max(slowest, ending.when - killed);
    }
    if (HasFailure()) break;
  }
  std::cout << trials << " trials; the slowest survivor heard after "
            << std::chrono::duration<double, std::milli>(slowest).count()
            << " ms\n";
}

// Open MPI, which others may be measuring on this machine, leaves its own.
std::set<std::string> files_in_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.rfind("vader_segment", 0) != 0) names.insert(name);
  }
  return names;
}

// The number after `name` in a file of such lines; 0 when that cannot be read.
int64_t kilobytes_in(const std::filesystem::path& path,
                     const std::string& name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t kilobytes = 0;
    if (word == name && file >> kilobytes) return kilobytes;
  }
  return 0;
}

// Shared memory of this machine that no process has mapped, in MB: a leak would
// be there, and what others do meanwhile is not.
int64_t ownerless_memory() {
  int64_t kilobytes = kilobytes_in("/proc/meminfo", "Shmem:");
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    if (process.path().filename().string().find_first_not_of("0123456789") ==
        std::string::npos) {
      kilobytes -= kilobytes_in(process.path() / "smaps_rollup", "Pss_Shmem:");
    }
  }
  return kilobytes / 1024;
}

TEST(ShmKill, JobsKilledAtAnyMomentLeaveNothing) {
  const int jobs = testing::full_run() ? 500 : 30;
  std::mt19937 random(testing::announced_seed());
  const auto files_before = files_in_dev_shm();
  const int64_t memory_before = ownerless_memory();
  int64_t held = 0;  // about, by jobs that had come to work
  for (int i = 0; i < jobs; ++i) {
    constexpr int kRanks = 3;
    constexpr int64_t kRegistered = 12;  // of all ranks, in MB
    RankJob job(kRanks, "play", random());
    // Half of them while they meet, half of them at work.
    if (i % 2 == 0) {
      ASSERT_TRUE(job.wait_for_all("ready"));
      held += kRegistered;
    }
    sleep_up_to(30ms, random);
    for (int rank = 0; rank < kRanks; ++rank) job.rank(rank).signal(SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      const int status = job.rank(rank).wait();
      // Whoever hears of a death before its own may end by itself.
      EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL) << status;
    }
  }
  EXPECT_THAT(testing::processes_with(RankJob::mark()), ::testing::IsEmpty());
  EXPECT_TRUE(testing::eventually([&] {
    const auto files = files_in_dev_shm();
    return std::includes(files_before.begin(), files_before.end(),
                         files.begin(), files.end());
  })) << ::testing::PrintToString(files_in_dev_shm());
  EXPECT_TRUE(testing::eventually([&] {
    return ownerless_memory() - memory_before < held / 2;
  })) << "memory that nobody has: "
      << memory_before << " MB, then " << ownerless_memory()
      << " MB; the jobs had about " << held << " MB";
}

}  // namespace
}  // namespace lockstep

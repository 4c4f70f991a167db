// SPDX-License-Identifier: Apache-2.0
// Writers that are killed, and a disk that is full.
#include <sys/wait.h>

#include <csignal>
#include <iostream>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/store/file_store.h"
#include "support/child.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::TempDir;

// Every key the writer has been told is stored must be there, for a reader
// that watched all the time and for one that comes later.
TEST(FileStoreFault, AWriterKilledAtAnyMomentLosesNothingAcknowledged) {
  const int rounds = testing::full_run() ? 200 : 50;
  std::mt19937 random(::testing::UnitTest::GetInstance()->random_seed());
  std::uniform_int_distribution<int> microseconds(0, 8000);
  int acknowledged = 0;
  // Ten killed writers share a file, so that torn ends pile up in one log.
  for (int round = 0; round < rounds;) {
    const TempDir directory;
    const std::string path = directory.file("store");
    FileStoreOptions options;
    options.run_id = "kill";
    FileStore watching(path, options);
    for (int n = 0; n < 10 && round < rounds; ++n, ++round) {
      const std::string name = "round" + std::to_string(round);
      Child writer({LOCKSTEP_STORE_WORKER, "write", path, name});
      ASSERT_TRUE(writer.read_line(Deadline::in(20s)));  // it has begun
      std::this_thread::sleep_for(
          std::chrono::microseconds(microseconds(random)));
      writer.signal(SIGKILL);
      writer.wait();
      const auto lines = writer.read_all(Deadline::in(10s));
      const int stored = lines.empty() ? 1 : std::stoi(lines.back()) + 1;
      acknowledged += stored;

      FileStore late(path, options);
      for (int i = 0; i < stored; ++i) {
        const std::string key = name + "/" + std::to_string(i);
        ASSERT_TRUE(watching.check({key})) << key;
        ASSERT_TRUE(late.check({key})) << key;
      }
      watching.set("alive", name);  // writing goes on, after a torn end too
      ASSERT_EQ(to_string(late.get("alive", Deadline::in(5s))), name);
    }
  }
  std::cout << acknowledged << " acknowledged sets, none lost\n";
}

TEST(FileStoreFault, AFullDiskIsAnErrorAndLosesNothing) {
  const TempDir directory;
  Child filler({LOCKSTEP_STORE_WORKER, "fill", directory.path()});
  const auto lines = filler.read_all(Deadline::in(60s));
  const int status = filler.wait();
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "needs the right to mount a file system: " << lines.at(0);
  }
  EXPECT_EQ(WEXITSTATUS(status), 0) << ::testing::PrintToString(lines);
  EXPECT_THAT(lines.at(0), ::testing::HasSubstr("ENOSPC"));
  EXPECT_THAT(lines.at(0), ::testing::HasSubstr(directory.path()));
}

}  // namespace
}  // namespace lockstep

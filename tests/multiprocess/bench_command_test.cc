// SPDX-License-Identifier: Apache-2.0
// The real `lockstep bench`, as a user calls it.
#include <sys/wait.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/child.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

struct Outcome {
  int exit_code = -1;
  std::vector<std::string> lines;
  std::string text;
};

Outcome run(const std::vector<std::string>& command) {
  testing::Child child(command, /*with_errors=*/true);
  Outcome outcome;
  outcome.lines = child.read_all(Deadline::in(60s));
  for (const auto& line : outcome.lines) outcome.text += line + "\n";
  const int status = child.wait();
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

Outcome bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {LOCKSTEP_TOOL, "bench"});
  return run(arguments);
}

TEST(BenchCommand, MeasuresAndVerifiesWithThreads) {
  const auto outcome = bench({"all_reduce", "--backend", "local", "-n", "2",
                              "--bytes", "1K:64K", "--iterations", "3"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("# all_reduce: 2 ranks (threads), backend local"));
  EXPECT_THAT(outcome.lines, SizeIs(5 + 7)) << outcome.text;
  for (const auto& line : outcome.lines) {
    EXPECT_LE(line.size(), 80U) << line;
    if (line[0] == '#') continue;
    EXPECT_THAT(line, HasSubstr(" float32     sum "));
    EXPECT_EQ(line.substr(line.size() - 2), " 0") << line;
  }
}

TEST(BenchCommand, WritesJson) {
  const testing::TempDir folder;
  const std::string path = folder.file("rows.json");
  const auto outcome =
      bench({"reduce_scatter", "--backend", "local", "-n", "3", "--bytes",
             "1K:4K", "--dtype", "bfloat16", "--op", "average", "--registered",
             "--async", "--iterations", "2", "--json", path});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  std::ifstream file(path);
  const auto all = nlohmann::json::parse(file);
  EXPECT_EQ(all["collective"], "reduce_scatter");
  EXPECT_EQ(all["backend"], "local");
  EXPECT_EQ(all["ranks"], 3);
  EXPECT_EQ(all["registered"], true);
  EXPECT_EQ(all["sync"], false);
  EXPECT_EQ(all["dtype"], "bfloat16");
  EXPECT_EQ(all["op"], "average");
  ASSERT_EQ(all["rows"].size(), 3U);
  for (const auto& row : all["rows"]) {
    EXPECT_EQ(row["bytes"].get<int>() % 6, 0);
    EXPECT_EQ(row["count"], row["bytes"].get<int>() / 2);
    EXPECT_EQ(row["wrong"], 0);
    for (const char* figure :
         {"time_us", "copy_us", "algorithm_gbs", "bus_gbs", "efficiency"}) {
      EXPECT_GT(row[figure].get<double>(), 0) << figure;
    }
  }
}

TEST(BenchCommand, ABarrierHasATimeOnly) {
  const auto outcome =
      bench({"barrier", "--backend", "local", "-n", "2", "--iterations", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.lines.back(), HasSubstr("-      -     -      -"));
}

TEST(BenchCommand, InAJobItIsOneOfTheRanks) {
  const auto job = [](const std::vector<std::string>& options) {
    std::vector<std::string> command = {LOCKSTEP_TOOL, "run",  "-n", "2", "--",
                                        LOCKSTEP_TOOL, "bench"};
    command.insert(command.end(), options.begin(), options.end());
    return run(command);
  };
  const auto outcome =
      job({"all_reduce", "--bytes", "4K", "--iterations", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("2 ranks (processes), backend shm"));
  const auto other = job({"all_reduce", "-n", "3"});
  EXPECT_EQ(other.exit_code, 2) << other.text;
  EXPECT_THAT(other.text, HasSubstr("one of the 2 ranks"));
}

TEST(BenchCommand, StartsProcessesByItself) {
  const auto outcome = bench({"all_gather", "--registered", "-n", "2",
                              "--bytes", "4K", "--iterations", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("2 ranks (processes), backend shm"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("[0]")));
}

TEST(BenchCommand, OneRankNeedsNoOthers) {
  const auto outcome = bench({"all_reduce", "--backend", "shm", "-n", "1",
                              "--bytes", "4K", "--iterations", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("1 rank (processes), backend shm"));
}

TEST(BenchCommand, BadInputIsToldClearly) {
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* text;
  };
  const std::vector<Case> cases = {
      {{}, 2, "collective is required"},
      {{"all_redcue"}, 2, "there is no collective 'all_redcue'"},
      {{"all_reduce", "--backend", "pigeon"}, 2, "no backend 'pigeon'"},
      {{"all_reduce", "--bytes", "2K:1K"}, 2, "the smaller one first"},
      {{"all_reduce", "--bytes", "1001"}, 2, "not one or more float32"},
      {{"all_reduce", "-n", "0"}, 2, "1 or more"},
      {{"all_reduce", "--bind", "moon"}, 2, "core, numa and none"},
      {{"broadcast", "-n", "2", "--root", "2"}, 2, "--root 2 is not in 0..1"},
      {{"all_reduce", "--btyes", "1K"}, 2, "Did you mean --bytes?"},
      {{"all_reduce", "--backend", "local", "-n", "2", "--json", "/no/such"},
       1,
       "cannot write '/no/such'"},
  };
  for (const auto& one : cases) {
    const auto outcome = bench(one.arguments);
    EXPECT_EQ(outcome.exit_code, one.exit_code) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(one.text));
    EXPECT_THAT(outcome.text, Not(HasSubstr("time")));  // no table was begun
  }
}

}  // namespace
}  // namespace lockstep

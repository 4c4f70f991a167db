// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/child.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class WrapperKill : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, WrapperKill,
                         ::testing::Values("shm", "gloo"));

// The lines with `text` in them.
std::vector<std::string> lines_with(const std::vector<std::string>& lines,
                                    const std::string& text) {
  std::vector<std::string> found;
  for (const auto& line : lines) {
    if (line.find(text) != std::string::npos) found.push_back(line);
  }
  return found;
}

TEST_P(WrapperKill, InItsTenthStepTheOthersNameItAndSoDoesTheLauncher) {
  const auto begin = Deadline::Clock::now();
  testing::Child job({LOCKSTEP_TOOL, "run", "-n", "3", "--backend", GetParam(),
                      "--", LOCKSTEP_WRAPPER_WORKER, "1", "10"},
                     /*with_errors=*/true);
  const auto lines = job.read_all(Deadline::in(60s));
  const int status = job.wait();
  EXPECT_LT(Deadline::Clock::now() - begin, 30s);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL);
  for (const char* rank : {"0", "2"}) {
    const auto ended = lines_with(
        lines, std::string("[") + rank + "] step of rank " + rank + " ended");
    ASSERT_EQ(ended.size(), 1U) << ::testing::PrintToString(lines);
    EXPECT_THAT(ended[0], HasSubstr("rank 1"));
  }
  EXPECT_EQ(lines_with(lines, "too far").size(), 0U);
  const auto report = lines_with(lines, "lockstep: rank 1 failed");
  ASSERT_EQ(report.size(), 1U) << ::testing::PrintToString(lines);
  EXPECT_THAT(report[0], HasSubstr("killed by SIGKILL"));
}

}  // namespace
}  // namespace lockstep

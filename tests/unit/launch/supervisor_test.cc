// SPDX-License-Identifier: Apache-2.0
// The report; how ranks are minded is tested with the real launcher in
// tests/multiprocess.
#include "launch/supervisor.h"

#include <csignal>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

FailedRank failure_by(Ending ending) {
  FailedRank failure;
  failure.rank = 2;
  failure.host = "node7";
  failure.pid = 4711;
  failure.ending = ending;
  failure.after = 1500ms;
  return failure;
}

TEST(FailureReport, SaysRankHowWhenAndWhere) {
  EXPECT_EQ(to_text(failure_by({3, 0, false})),
            "rank 2 failed: exited with code 3, 1.5 s after the start (host "
            "node7, pid 4711)\n"
            "  it had printed nothing\n");
}

TEST(FailureReport, ShowsTheLastLinesAndTheLog) {
  FailedRank failure = failure_by({0, SIGSEGV, true});
  failure.last_lines = {"one", "two"};
  failure.log_path = "logs/rank-2.round-0.log";
  EXPECT_EQ(to_text(failure),
            "rank 2 failed: killed by SIGSEGV (core dumped), 1.5 s after the "
            "start (host node7, pid 4711)\n"
            "  its last lines:\n"
            "    | one\n"
            "    | two\n"
            "  its log: logs/rank-2.round-0.log\n");
}

TEST(FailureReport, SaysWhenMemoryMayHaveRunOut) {
  FailedRank failure = failure_by({0, SIGKILL, false});
  failure.out_of_memory = true;
  EXPECT_NE(to_text(failure).find("killed by SIGKILL, perhaps out of memory,"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::detail

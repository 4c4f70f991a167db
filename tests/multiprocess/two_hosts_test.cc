// SPDX-License-Identifier: Apache-2.0
// The real `lockstep run` on two hosts: they work and fail as one.
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/deadline.h"
#include "support/child.h"
#include "support/net_lab.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using ::testing::HasSubstr;
using testing::NetLab;
using Words = std::vector<std::string>;

const Words kHello = {LOCKSTEP_HELLO_RANKS};

// How a launcher ended, and all it printed.
struct Ending {
  int code = 0;
  std::string said;
};

Words options_of(int hosts, const std::string& timeout, Words more = {}) {
  more.insert(more.end(),
              {"--nnodes", std::to_string(hosts), "--timeout", timeout});
  return more;
}

class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_NEED_NET_LAB();
    lab_ = std::make_unique<NetLab>(2);
    testing::write_file(secret_, "no one else knows this very long line\n");
    std::filesystem::permissions(secret_, std::filesystem::perms(0600));
  }

  // A launcher of two ranks on one host.
  std::unique_ptr<Child> launch(int host, int node_rank, const Words& program,
                                const Words& options) const {
    Words words = {LOCKSTEP_TOOL,
                   "run",
                   "-n",
                   "2",
                   "--node-rank",
                   std::to_string(node_rank),
                   "--rendezvous",
                   lab_->address(0) + ":7000",
                   "--secret-file",
                   secret_,
                   "--grace",
                   "1"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return std::make_unique<Child>(lab_->on(host, words), /*with_errors=*/true);
  }

  static Ending end_of(Child& launcher) {
    Ending ending;
    for (const auto& line : launcher.read_all(Deadline::in(60s))) {
      ending.said += line + "\n";
    }
    const int status = launcher.wait();
    ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return ending;
  }

  // A launcher on each host; what comes of them.
  std::vector<Ending> run(const Words& program, const Words& first,
                          const Words& second) const {
    const auto one = launch(0, 0, program, first);
    const auto two = launch(1, 1, program, second);
    return {end_of(*one), end_of(*two)};
  }
  std::vector<Ending> run(const Words& program,
                          const Words& both = options_of(2, "60")) const {
    return run(program, both, both);
  }

 private:
  std::unique_ptr<NetLab> lab_;
  const testing::TempDir directory_;
  const std::string secret_ = directory_.file("secret");
};

TEST_F(TwoHosts, RanksOfBothMeet) {
  const auto ends = run(kHello);
  EXPECT_EQ(ends[0].code, 0) << ends[0].said;
  EXPECT_EQ(ends[1].code, 0) << ends[1].said;
  EXPECT_THAT(ends[0].said, HasSubstr("rank 3 of 4"));
  EXPECT_THAT(ends[0].said, HasSubstr("all 4 ranks have met"));
}

TEST_F(TwoHosts, BothNameARankThatFailsAndGiveItsCode) {
  for (const char* rank : {"0", "3"}) {
    for (const auto& end :
         run({LOCKSTEP_LAUNCH_WORKER, "fail", "exit", rank, "after"})) {
      EXPECT_EQ(end.code, 3) << end.said;
      EXPECT_THAT(end.said, HasSubstr(std::string("rank ") + rank +
                                      " failed: exited with code 3"));
    }
  }
}

TEST_F(TwoHosts, AFailingRoundStartsAgainOnBoth) {
  for (const auto& end : run({LOCKSTEP_LAUNCH_WORKER, "flaky", "1"},
                             options_of(2, "60", {"--max-restarts", "1"}))) {
    EXPECT_EQ(end.code, 0) << end.said;
    EXPECT_THAT(end.said, HasSubstr("starting again"));
  }
}

TEST_F(TwoHosts, ThatDisagreeAboutTheirNumberAreTold) {
  const auto ends = run(kHello, options_of(2, "3"), options_of(3, "3"));
  EXPECT_NE(ends[0].code, 0);
  EXPECT_NE(ends[1].code, 0);
  EXPECT_THAT(ends[0].said + ends[1].said,
              HasSubstr("this launcher was given --nnodes"));
}

TEST_F(TwoHosts, OneThatNeverJoinsIsNamed) {
  const auto alone = end_of(*launch(0, 0, kHello, options_of(2, "1")));
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.said, HasSubstr("node rank 1 of 2 had not joined"));
}

TEST_F(TwoHosts, TheSecondWithANodeRankIsTold) {
  const Words options = options_of(3, "5");
  const auto server = launch(0, 0, kHello, options);
  const auto first = launch(1, 1, kHello, options);
  const auto second = launch(1, 1, kHello, options);
  EXPECT_THAT(end_of(*first).said + end_of(*second).said,
              HasSubstr("has --node-rank 1 already"));
}

}  // namespace
}  // namespace lockstep

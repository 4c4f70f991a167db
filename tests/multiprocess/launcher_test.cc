// SPDX-License-Identifier: Apache-2.0
// The real `lockstep run`, with ranks that die in every way.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/deadline.h"
#include "support/child.h"
#include "support/sanitizers.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;

// A launcher whose ranks carry a mark, by which those left behind are found.
class Job {
 public:
  Job(std::vector<std::string> options, const std::vector<std::string>& command)
      : mark_("LOCKSTEP_TEST_MARK=" + std::to_string(::getpid()) + "." +
              std::to_string(next_++)) {
    std::vector<std::string> all = {LOCKSTEP_TOOL, "run", "--env", mark_};
    all.insert(all.end(), options.begin(), options.end());
    all.emplace_back("--");
    all.insert(all.end(), command.begin(), command.end());
    launcher_ = std::make_unique<Child>(all, /*with_errors=*/true);
  }

  Child& launcher() { return *launcher_; }

  // Reads lines until one contains `text`.
  bool wait_for(const std::string& text, int times = 1) {
    const auto deadline = Deadline::in(30s);
    while (auto line = launcher_->read_line(deadline)) {
      output_ += *line + "\n";
      if (line->find(text) != std::string::npos && --times == 0) return true;
    }
    return false;
  }

  // All it prints to its end; then its exit code.
  int finish() {
    for (const auto& line : launcher_->read_all(Deadline::in(60s))) {
      output_ += line + "\n";
    }
    const int status = launcher_->wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  const std::string& output() const { return output_; }
  std::vector<int> left_behind() const {
    return testing::processes_with(mark_);
  }

 private:
  static inline int next_ = 0;
  const std::string mark_;
  std::unique_ptr<Child> launcher_;
  std::string output_;
};

// The address sanitizer keeps what is freed for a while.
constexpr long kMostMemoryMib = testing::kAddressSanitizer ? 1000 : 300;

const std::string kWorker = LOCKSTEP_LAUNCH_WORKER;

TEST(Launcher, AllRanksZeroIsZeroAndNothingIsLeft) {
  Job job({"-n", "4"}, {LOCKSTEP_HELLO_RANKS});
  EXPECT_EQ(job.finish(), 0) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("[0] rank 3 of 4"));
  EXPECT_THAT(job.output(), HasSubstr("all 4 ranks have met"));
  EXPECT_TRUE(job.left_behind().empty());
}

struct Way {
  const char* how;
  int exit_code;
  const char* text;
};

class LauncherFailure : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(
    Ways, LauncherFailure,
    ::testing::Values(Way{"kill", 128 + SIGKILL, "killed by SIGKILL"},
                      Way{"abort", 128 + SIGABRT, "killed by SIGABRT"},
                      Way{"exit", 3, "exited with code 3"},
                      Way{"throw", 128 + SIGABRT, "killed by SIGABRT"}),
    [](const auto& way) { return std::string(way.param.how); });

TEST_P(LauncherFailure, NamesTheRankHowAndItsLastLines) {
  const Way way = GetParam();
  for (int rank = 0; rank < 4; ++rank) {
    for (const char* when : {"before", "after"}) {
      const auto start = Deadline::Clock::now();
      Job job({"-n", "4"},
              {kWorker, "fail", way.how, std::to_string(rank), when});
      EXPECT_EQ(job.finish(), way.exit_code) << job.output();
      EXPECT_LT(Deadline::Clock::now() - start, 20s);
      EXPECT_THAT(job.output(), HasSubstr("rank " + std::to_string(rank) +
                                          " failed: " + way.text));
      EXPECT_THAT(job.output(), HasSubstr("    | last words of this rank"));
      if (std::string(way.how) == "throw") {
        EXPECT_THAT(job.output(), HasSubstr("thrown on purpose"));
      }
      EXPECT_TRUE(job.left_behind().empty());
    }
  }
}

// A rank that catches its exception leaves the group long before its process
// ends, and those that it leaves may be quicker.
TEST(Launcher, BlamesWhomTheOthersSayTheyLost) {
  const std::string program =
      "if [ $RANK = 1 ]; then sleep 0.2; echo bad batch; exit 5; fi; "
      "if [ $RANK = 2 ]; then echo 'rank 0 died'; exit 7; fi; "
      "echo 'all_reduce #3: rank 1 has left the group'; exit 6";
  Job job({"-n", "3"}, {"sh", "-c", program});
  EXPECT_EQ(job.finish(), 5) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("rank 1 failed: exited with code 5"));
  EXPECT_THAT(job.output(), HasSubstr("    | bad batch"));
}

// But not one that goes on, or has ended well.
TEST(Launcher, BlamesTheFirstWhenTheAccusedDidNotFail) {
  for (const char* const what : {"exit 0", "sleep 100"}) {
    const std::string program =
        std::string("if [ $RANK = 1 ]; then ") + what +
        "; fi; sleep 0.1; echo 'rank 1 died: or so it seems'; exit 6";
    Job job({"-n", "2"}, {"sh", "-c", program});
    EXPECT_EQ(job.finish(), 6) << job.output();
    EXPECT_THAT(job.output(), HasSubstr("rank 0 failed: exited with code 6"));
  }
}

TEST(Launcher, SignalsArePassedOnAsTheyAre) {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    Job job({"-n", "2"}, {kWorker, "polite"});
    ASSERT_TRUE(job.wait_for("ready", 2)) << job.output();
    job.launcher().signal(number);
    EXPECT_EQ(job.finish(), 128 + number) << job.output();
    EXPECT_THAT(job.output(), HasSubstr("[1] told to end by signal " +
                                        std::to_string(number)));
    EXPECT_TRUE(job.left_behind().empty());
  }
}

TEST(Launcher, StubbornRanksAreKilledAfterTheGrace) {
  Job job({"-n", "2", "--grace", "0.3"}, {kWorker, "stubborn"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  const auto start = Deadline::Clock::now();
  job.launcher().signal(SIGINT);
  EXPECT_EQ(job.finish(), 128 + SIGINT);
  EXPECT_GE(Deadline::Clock::now() - start, 300ms);
  EXPECT_LT(Deadline::Clock::now() - start, 10s);
  EXPECT_TRUE(job.left_behind().empty());
}

TEST(Launcher, ASecondSignalKillsAtOnce) {
  Job job({"-n", "2", "--grace", "100"}, {kWorker, "stubborn"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  const auto start = Deadline::Clock::now();
  job.launcher().signal(SIGINT);
  // Signals of one kind merge while they are pending: ask until it is over.
  std::thread asker([&] {
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(20ms);
      job.launcher().signal(SIGINT);
    }
  });
  // The last of them may end the launcher itself, when all is done.
  EXPECT_THAT(job.finish(), ::testing::AnyOf(128 + SIGINT, -SIGINT));
  EXPECT_LT(Deadline::Clock::now() - start, 20s);
  asker.join();
  EXPECT_TRUE(job.left_behind().empty());
}

TEST(Launcher, AFailureEndsTheGrandchildrenToo) {
  Job job({"-n", "2", "--grace", "0.2"}, {kWorker, "family"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  EXPECT_GE(job.left_behind().size(), 6U);
  job.launcher().signal(SIGTERM);
  job.finish();
  EXPECT_TRUE(job.left_behind().empty());
}

TEST(Launcher, RanksDieWithAKilledLauncherAndTheirChildrenToo) {
  Job job({"-n", "2"}, {kWorker, "family"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  EXPECT_GE(job.left_behind().size(), 6U);
  job.launcher().signal(SIGKILL);
  job.launcher().wait();
  EXPECT_TRUE(eventually([&] { return job.left_behind().empty(); }));
}

TEST(Launcher, RestartsUntilARoundSucceeds) {
  Job job({"-n", "3", "--max-restarts", "2"}, {kWorker, "flaky", "2"});
  EXPECT_EQ(job.finish(), 0) << job.output();
  for (const char* round : {"0", "1", "2"}) {
    EXPECT_THAT(job.output(),
                HasSubstr("round " + std::string(round) + " has met"));
  }
  EXPECT_THAT(job.output(), HasSubstr("starting again: restart 2 of 2"));
}

TEST(Launcher, GivesUpAfterTheLastRestart) {
  Job job({"-n", "3", "--max-restarts", "1"}, {kWorker, "flaky", "5"});
  EXPECT_EQ(job.finish(), 7) << job.output();
  EXPECT_THAT(job.output(), Not(HasSubstr("round 2 has met")));
}

TEST(Launcher, AProcessOfAnEarlierRoundIsTurnedAway) {
  Job job({"-n", "1", "--max-restarts", "1"}, {kWorker, "late"});
  EXPECT_EQ(job.finish(), 0) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("turned away"));
}

TEST(Launcher, LogsGoToAFilePerRankAndRound) {
  const testing::TempDir directory;
  const std::string logs = directory.file("deep/logs");
  Job job({"-n", "2", "--max-restarts", "1", "--log-dir", logs, "--no-prefix"},
          {kWorker, "flaky", "1"});
  EXPECT_EQ(job.finish(), 0) << job.output();
  for (const char* name : {"rank-0.round-0", "rank-1.round-0", "rank-0.round-1",
                           "rank-1.round-1"}) {
    EXPECT_THAT(testing::read_file(logs + "/" + name + ".log"),
                HasSubstr("has met\n"))
        << name;
  }
  EXPECT_THAT(job.output(), HasSubstr("its log: " + logs));
  EXPECT_THAT(job.output(), Not(HasSubstr("[0]")));
}

TEST(Launcher, AFloodKeepsLinesWholeStallsNobodyAndStaysSmall) {
  const int mib = testing::full_run() ? 200 : 50;
  Job job({"-n", "2"}, {kWorker, "flood", std::to_string(mib)});
  const std::string flood = "[0] " + std::string(99, 'f');
  const std::regex other(R"(\[1\] (a line of the other rank|slowest (\d+)))");
  int64_t lines = 0;
  long slowest = -1;
  long memory = 0;
  std::smatch match;
  while (auto line = job.launcher().read_line(Deadline::in(60s))) {
    if (*line == flood) {
      if (++lines % 50000 != 0) continue;
      std::ifstream statm("/proc/" + std::to_string(job.launcher().pid()) +
                          "/statm");
      long pages = 0;
      statm >> pages >> pages;
      memory = std::max(memory, pages * ::sysconf(_SC_PAGESIZE) >> 20);
    } else if (std::regex_match(*line, match, other)) {
      if (match[2].matched) slowest = std::stol(match[2]);
    } else {
      ASSERT_EQ(line->find("lockstep: "), 0U) << *line;
    }
  }
  EXPECT_EQ(job.finish(), 0);
  EXPECT_EQ(lines, ((int64_t{mib} << 20) + 99) / 100);
  EXPECT_GE(slowest, 0);
  EXPECT_LT(slowest, 5000);
  EXPECT_LT(memory, kMostMemoryMib);
}

// A pipe that nobody reads must not keep the launcher from ending its ranks.
TEST(Launcher, AReaderThatDoesNotReadIsNotWaitedForAfterASignal) {
  const testing::TempDir directory;
  const std::string mark =
      "LOCKSTEP_TEST_MARK=unread." + std::to_string(::getpid());
  const std::string fifo = directory.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Fd unread(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  Child launcher({"/bin/sh", "-c",
                  "exec " LOCKSTEP_TOOL " run -n 2 --grace 0.3 --env " + mark +
                      " -- /bin/sh -c 'if [ $RANK = 0 ]; then head -c 500000 "
                      "/dev/zero | tr \"\\0\" \"\\n\"; exit 3; fi; sleep 1000' "
                      "> " +
                      fifo});
  EXPECT_TRUE(
      eventually([&] { return testing::processes_with(mark).size() >= 2; }));
  const auto start = Deadline::Clock::now();
  while (!testing::processes_with(mark).empty() &&
         Deadline::Clock::now() - start < 20s) {
    launcher.signal(SIGTERM);
    std::this_thread::sleep_for(50ms);
  }
  const int status = launcher.wait();
  EXPECT_LT(Deadline::Clock::now() - start, 20s);
  EXPECT_TRUE(WIFEXITED(status));
}

TEST(Launcher, UnderNohupAHangupIsIgnored) {
  Child launcher({"/bin/sh", "-c",
                  "trap '' HUP; exec " LOCKSTEP_TOOL " run -n 1 -- /bin/sh -c "
                  "'echo ready; kill -HUP $PPID; kill -HUP $$; echo alive'"});
  const auto lines = launcher.read_all(Deadline::in(30s));
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_THAT(lines, ::testing::Contains("[0] alive"));
}

TEST(Launcher, NeedsNoStandardStreams) {
  for (const char* closed : {"<&-", "<&- >&- 2>&-"}) {
    Child launcher({"/bin/sh", "-c",
                    std::string("exec " LOCKSTEP_TOOL " run -n 2 -- " +
                                kWorker + " flaky 0 ") +
                        closed});
    EXPECT_EQ(launcher.wait(), 0) << closed;
  }
}

TEST(Launcher, SixtyFourRanksMeet) {
  Job job({"-n", "64"}, {LOCKSTEP_HELLO_RANKS});
  EXPECT_EQ(job.finish(), 0) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("all 64 ranks have met"));
  EXPECT_THAT(job.output(), HasSubstr("not bound, one thread each"));
}

TEST(Launcher, TwoJobsAtOnceDoNotMeet) {
  Job one({"-n", "2"}, {LOCKSTEP_HELLO_RANKS});
  Job two({"-n", "3"}, {LOCKSTEP_HELLO_RANKS});
  EXPECT_EQ(one.finish(), 0) << one.output();
  EXPECT_EQ(two.finish(), 0) << two.output();
  EXPECT_THAT(one.output(), HasSubstr("all 2 ranks"));
  EXPECT_THAT(two.output(), HasSubstr("all 3 ranks"));
}

TEST(Launcher, TheSecretIsOnNoCommandLine) {
  Job job({"-n", "1", "--grace", "0"},
          {"/bin/sh", "-c",
           "tr '\\0' ' ' < /proc/$PPID/cmdline; cat /proc/$$/cmdline; echo; "
           "echo secret=$LOCKSTEP_SECRET"});
  EXPECT_EQ(job.finish(), 0);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(job.output(), match,
                                std::regex("secret=([0-9a-f]{64})")));
  const std::string before = match.prefix();
  EXPECT_EQ(before.find(match[1]), std::string::npos);
}

TEST(LauncherBadInput, IsToldClearly) {
  const testing::TempDir directory;
  const std::string readable = directory.file("secret");
  testing::write_file(readable, "secret\n");
  std::filesystem::permissions(readable, std::filesystem::perms(0644));
  const std::vector<std::string> hosts = {"--nnodes", "2", "--rendezvous",
                                          "127.0.0.1:1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), hosts.begin(), hosts.end());
    return more;
  };
  struct Case {
    std::vector<std::string> options;
    std::vector<std::string> command;
    int exit_code;
    const char* text;
  };
  const std::vector<Case> cases = {
      {{"--bnid", "core"}, {"true"}, 2, "Did you mean --bind?"},
      {{"-n", "0"}, {"true"}, 2, "1 or more"},
      {{"-n", "x"}, {"true"}, 2, "-n wants"},
      {{"--bind", "socket"}, {"true"}, 2, "core, numa and none"},
      {{"--env", "novalue"}, {"true"}, 2, "NAME=VALUE"},
      {{}, {}, 2, "nothing to run"},
      {{}, {"./no-such-program"}, 2, "no program './no-such-program'"},
      {{}, {"no-such-program"}, 2, "no program 'no-such-program' in PATH"},
      {{}, {"/etc/passwd"}, 2, "not executable"},
      {{"--node-rank", "1"}, {"true"}, 2, "without --nnodes"},
      {{"--nnodes", "2"}, {"true"}, 2, "--rendezvous"},
      {hosts, {"true"}, 2, "--secret-file"},
      {with({"--secret-file", readable}), {"true"}, 2, "chmod 600"},
      {with({"--secret-file", "/no/such"}), {"true"}, 1, "/no/such"},
      {{"--log-dir", "/dev/null/x"}, {"true"}, 1, "log directory"},
  };
  for (const auto& one : cases) {
    Job job(one.options, one.command);
    EXPECT_EQ(job.finish(), one.exit_code) << job.output();
    EXPECT_THAT(job.output(), HasSubstr(one.text));
  }
}

}  // namespace
}  // namespace lockstep

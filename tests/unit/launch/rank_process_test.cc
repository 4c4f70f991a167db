// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_process.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/binding.h"
#include "lockstep/base/error.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using ::testing::HasSubstr;
using testing::is_alive;
using testing::is_readable;
using ::testing::Not;
using testing::read_line;
using testing::read_to_end;
using testing::soon;

RankCommand shell(const std::string& script) {
  RankCommand command;
  command.program = "/bin/sh";
  command.arguments = {"sh", "-c", script};
  command.environment = {"PATH=/usr/bin:/bin"};
  return command;
}

Ending wait_for(RankProcess& process) {
  EXPECT_TRUE(is_readable(process.handle(), soon())) << "it runs on";
  const auto ending = process.reap();
  EXPECT_TRUE(ending);
  return ending.value_or(Ending{-1, -1, false});
}

TEST(RankProcess, TellsTheExitCode) {
  RankProcess process(shell("exit 3"));
  const auto ending = wait_for(process);
  EXPECT_EQ(ending.code, 3);
  EXPECT_EQ(ending.signal, 0);
  EXPECT_FALSE(ending.is_success());
  EXPECT_EQ(ending.exit_code(), 3);
  EXPECT_EQ(to_text(ending), "exited with code 3");
}

TEST(RankProcess, TellsSuccess) {
  RankProcess process(shell("exit 0"));
  const auto ending = wait_for(process);
  EXPECT_TRUE(ending.is_success());
  EXPECT_EQ(ending.exit_code(), 0);
}

TEST(RankProcess, TellsTheSignalThatEndedIt) {
  RankProcess process(shell("kill -TERM $$"));
  const auto ending = wait_for(process);
  EXPECT_EQ(ending.signal, SIGTERM);
  EXPECT_FALSE(ending.is_success());
  EXPECT_EQ(ending.exit_code(), 128 + SIGTERM);
  EXPECT_EQ(to_text(ending), "killed by SIGTERM");
}

TEST(RankProcess, TellsTheSameEndingAgain) {
  RankProcess process(shell("exit 7"));
  wait_for(process);
  ASSERT_TRUE(process.reap());
  EXPECT_EQ(process.reap()->code, 7);
}

TEST(RankProcess, HasNoEndingWhileItRuns) {
  RankProcess process(shell("echo started; exec sleep 1000"));
  const Fd out = process.take_out();
  ASSERT_EQ(read_line(out.get(), soon()), "started");
  EXPECT_FALSE(process.reap());
  EXPECT_FALSE(is_readable(process.handle(), Deadline::in(0s)));
  process.signal(SIGKILL);
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
}

TEST(RankProcess, HasStreamsOfItsOwn) {
  RankProcess process(shell("echo to out; echo to err >&2"));
  const Fd out = process.take_out();
  const Fd err = process.take_err();
  EXPECT_EQ(read_to_end(out.get(), soon()), "to out\n");
  EXPECT_EQ(read_to_end(err.get(), soon()), "to err\n");
}

TEST(RankProcess, HasAnEmptyStandardInput) {
  RankProcess process(shell("cat; echo end"));
  const Fd out = process.take_out();
  EXPECT_EQ(read_to_end(out.get(), soon()), "end\n");
}

TEST(RankProcess, HasItsArgumentsAndItsEnvironmentAlone) {
  auto command = shell("");
  command.program = "/usr/bin/env";
  command.arguments = {"env", "ADDED=1"};
  command.environment = {"ONE=a b", "TWO="};
  RankProcess process(command);
  const Fd out = process.take_out();
  EXPECT_EQ(read_to_end(out.get(), soon()), "ONE=a b\nTWO=\nADDED=1\n");
}

TEST(RankProcess, InheritsNothingOfAnotherRank) {
  RankProcess other(shell("exec sleep 1000"));
  const Fd others = other.take_out();
  struct stat info {};
  ASSERT_EQ(::fstat(others.get(), &info), 0);
  const auto pipe = "pipe:[" + std::to_string(info.st_ino) + "]";
  RankProcess process(shell("ls -l /proc/self/fd"));
  const Fd out = process.take_out();
  const auto open = read_to_end(out.get(), soon());
  EXPECT_THAT(open, HasSubstr("pipe:["));  // its own
  EXPECT_THAT(open, Not(HasSubstr(pipe)));
}

TEST(RankProcess, HearsSignalsThoughTheLauncherDoesNot) {
  sigset_t block;
  sigset_t before;
  ::sigemptyset(&block);
  ::sigaddset(&block, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &block, &before);
  const testing::SigpipeIgnored no_signal;
  RankProcess process(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const Fd out = process.take_out();
  const auto mask = [&](const std::string& name) {
    const auto line = read_line(out.get(), soon());
    EXPECT_THAT(line, HasSubstr(name));
    return std::stoull("0" + line.substr(line.find('\t') + 1), nullptr, 16);
  };
  EXPECT_EQ(mask("SigBlk") & (1ull << (SIGTERM - 1)), 0u);
  EXPECT_EQ(mask("SigIgn") & (1ull << (SIGPIPE - 1)), 0u);
}

TEST(RankProcess, LeadsAGroupOfItsOwn) {
  RankProcess process(shell("exec sleep 1000"));
  EXPECT_EQ(::getpgid(process.pid()), process.pid());
}

TEST(RankProcess, IsBoundToItsCpus) {
  const auto machine = find_machine();
  const int cpu = machine.cores.back().cpus.back();
  auto command = shell("grep Cpus_allowed_list /proc/self/status");
  command.cpus = {cpu};
  RankProcess process(command);
  const Fd out = process.take_out();
  EXPECT_EQ(read_to_end(out.get(), soon()),
            "Cpus_allowed_list:\t" + std::to_string(cpu) + "\n");
}

TEST(RankProcess, IsNotBoundWithoutCpus) {
  const auto own = testing::read_file("/proc/thread-self/status");
  RankProcess process(shell("grep Cpus_allowed_list /proc/self/status"));
  const Fd out = process.take_out();
  const auto line = read_to_end(out.get(), soon());
  EXPECT_THAT(line, HasSubstr("Cpus_allowed_list"));
  EXPECT_THAT(own, HasSubstr(line));
}

TEST(RankProcess, NamesAProgramThatCannotBeStarted) {
  const testing::TempDir directory;
  auto command = shell("true");
  command.program = directory.file("missing");
  const int descriptors = testing::open_descriptors();
  try {
    RankProcess process(command);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr(command.program));
  }
  command.program = directory.file("no-program");
  testing::write_file(command.program, "text");
  try {
    RankProcess process(command);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), EACCES);
  }
  EXPECT_EQ(testing::open_descriptors(), descriptors);
  // Nobody is left to wait for.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(RankProcess, PassesSignalsToItsWholeGroup) {
  RankProcess process(shell("sleep 1000 & echo $!; wait"));
  const Fd out = process.take_out();
  const pid_t grandchild = std::stoi("0" + read_line(out.get(), soon()));
  ASSERT_TRUE(is_alive(grandchild));
  process.signal(SIGKILL);
  EXPECT_EQ(wait_for(process).signal, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_alive(grandchild); }));
}

TEST(RankProcess, LeavesNothingOfItsGroupWhenItEnds) {
  RankProcess process(shell("sleep 1000 & echo $!"));
  const Fd out = process.take_out();
  const pid_t grandchild = std::stoi("0" + read_line(out.get(), soon()));
  ASSERT_TRUE(is_readable(process.handle(), soon()));
  ASSERT_TRUE(is_alive(grandchild));
  EXPECT_EQ(wait_for(process).code, 0);
  EXPECT_TRUE(eventually([&] { return !is_alive(grandchild); }));
}

TEST(RankProcess, EndsWithItsObject) {
  const int descriptors = testing::open_descriptors();
  pid_t pid = -1;
  pid_t grandchild = -1;
  {
    RankProcess process(shell("sleep 1000 & echo $!; wait"));
    pid = process.pid();
    const Fd out = process.take_out();
    grandchild = std::stoi("0" + read_line(out.get(), soon()));
    ASSERT_TRUE(is_alive(pid));
  }
  EXPECT_FALSE(is_alive(pid));
  EXPECT_TRUE(eventually([&] { return !is_alive(grandchild); }));
  EXPECT_EQ(testing::open_descriptors(), descriptors);
}

TEST(RankProcess, CanBeMoved) {
  std::vector<RankProcess> processes;
  {
    RankProcess process(shell("exec sleep 1000"));
    processes.push_back(std::move(process));
  }
  EXPECT_TRUE(is_alive(processes[0].pid()));
  EXPECT_FALSE(processes[0].reap());
}

TEST(RankProcess, DiesWithTheLauncher) {
  testing::TestPipe pipe;
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    RankProcess process(shell("exec sleep 1000"));
    const pid_t pid = process.pid();
    if (::write(pipe.write_end.get(), &pid, sizeof pid) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t rank = -1;
  EXPECT_EQ(::read(pipe.read_end.get(), &rank, sizeof rank),
            static_cast<ssize_t>(sizeof rank));
  EXPECT_TRUE(is_alive(rank));
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !is_alive(rank); }));
}

TEST(EndingText, NamesSignals) {
  EXPECT_EQ(to_text(Ending{0, SIGKILL, false}), "killed by SIGKILL");
  EXPECT_EQ(to_text(Ending{0, SIGSEGV, true}),
            "killed by SIGSEGV (core dumped)");
  EXPECT_EQ(to_text(Ending{0, 40, false}), "killed by signal 40");
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "launch/guard.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include <gtest/gtest.h>

#include "lockstep/store/tcp_store_server.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::is_alive;

// A process that sleeps, with one variable in its environment.
class Sleeper {
 public:
  explicit Sleeper(const std::string& variable) {
    const char* arguments[] = {"sleep", "1000", nullptr};
    const char* environment[] = {"A=b", variable.c_str(), "C=d", nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, "/bin/sleep", nullptr, nullptr,
                            const_cast<char**>(arguments),
                            const_cast<char**>(environment)),
              0);
    // In the midst of execve(2) it has an environment without variables.
    EXPECT_TRUE(eventually([&] {
      const auto path = "/proc/" + std::to_string(pid_) + "/environ";
      return testing::read_file(path).find(variable) != std::string::npos;
    }));
  }
  ~Sleeper() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  bool runs() const { return is_alive(pid_); }

 private:
  pid_t pid_ = -1;
};

class GuardTest : public ::testing::Test {
 protected:
  const std::string id_ = make_secret().substr(0, 16);
  const std::string mark_ = "LOCKSTEP_LAUNCHER=" + id_;
};

TEST_F(GuardTest, KillsWhatIsMarked) {
  const Sleeper one(mark_);
  const Sleeper two(mark_);
  // One that is dying may be seen, and killed, twice.
  EXPECT_GE(kill_marked(id_), 2);
  EXPECT_TRUE(eventually([&] { return !one.runs() && !two.runs(); }));
  EXPECT_EQ(kill_marked(id_), 0) << "what is dead does not count";
}

TEST_F(GuardTest, SparesWhatIsNot) {
  const Sleeper others[] = {
      Sleeper(mark_ + "0"),    Sleeper(mark_.substr(0, mark_.size() - 1)),
      Sleeper("NOT_" + mark_), Sleeper("LOCKSTEP_LAUNCHER="),
      Sleeper("PLAIN=1"),
  };
  const Sleeper marked(mark_);
  EXPECT_GE(kill_marked(id_), 1);
  EXPECT_TRUE(eventually([&] { return !marked.runs(); }));
  for (const auto& other : others) EXPECT_TRUE(other.runs());
}

TEST_F(GuardTest, KillsNothingWhenAllIsWell) {
  const Sleeper marked(mark_);
  const int descriptors = testing::open_descriptors();
  { const Guard guard(id_); }
  // It has been waited for, so nothing can come later.
  EXPECT_TRUE(marked.runs());
  EXPECT_EQ(testing::open_descriptors(), descriptors);
}

// A launcher that makes a Guard and waits to be killed.
pid_t start_launcher(const std::string& id) {
  testing::TestPipe ready;
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    const Guard guard(id);
    if (::write(ready.write_end.get(), "", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  EXPECT_EQ(::read(ready.read_end.get(), &byte, 1), 1);
  return launcher;
}

TEST_F(GuardTest, KillsWhatIsLeftWhenTheLauncherIsKilled) {
  const Sleeper marked(mark_);
  const Sleeper other("LOCKSTEP_LAUNCHER=another");
  const pid_t launcher = start_launcher(id_);
  EXPECT_TRUE(marked.runs());
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !marked.runs(); }));
  EXPECT_TRUE(other.runs());
}

TEST_F(GuardTest, KeepsNothingOfTheLauncherOpen) {
  testing::TestPipe pipe;
  const Guard guard(id_);
  // A reader of the launcher's streams sees their end when the launcher is
  // gone, though the guard lives on.
  pipe.write_end.reset();
  EXPECT_TRUE(testing::is_readable(pipe.read_end.get(), Deadline::in(20s)));
}

}  // namespace
}  // namespace lockstep::detail

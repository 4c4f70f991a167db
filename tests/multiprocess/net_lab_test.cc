// SPDX-License-Identifier: Apache-2.0
// Hosts on one machine are hosts: reached through their cables only, and gone
// when the lab is.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/child.h"
#include "support/net_lab.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::eventually;
using ::testing::HasSubstr;
using testing::NetLab;
using ::testing::Not;
using ::testing::StartsWith;

constexpr size_t kMega = 1 << 20;
constexpr const char* kSecret = "that the hosts of a lab have in common";

int exit_code(Child& child) {
  const int status = child.wait();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// What a command says in one line.
std::string line_of(const std::vector<std::string>& command) {
  Child child(command, /*with_errors=*/true);
  return child.read_line(Deadline::in(30s)).value_or("nothing");
}

// A store on host 0, reached from host 1.
class Route {
 public:
  explicit Route(const NetLab& lab)
      : lab_(lab),
        server_(lab.on(
            0, {LOCKSTEP_STORE_WORKER, "serve", kSecret, lab.address(0)})),
        port_(server_.read_line(Deadline::in(30s)).value_or("no port")) {}

  // What store_worker says about it: the seconds it took, or an error.
  std::string reach(int seconds, size_t bytes = 1) const {
    return line_of(
        lab_.on(1, {LOCKSTEP_STORE_WORKER, "reach", kSecret, lab_.address(0),
                    port_, std::to_string(bytes), std::to_string(seconds)}));
  }
  bool is_open() const { return reach(30).find("error") == std::string::npos; }

 private:
  const NetLab& lab_;
  Child server_;
  const std::string port_;
};

// Whether a process runs in the network namespace `name` ("net:[4026532281]"),
// or one has a place in the file system, as those of `ip netns` have.
bool exists(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::error_code ignored;
    const auto link = entry.path() / "ns" / "net";
    if (std::filesystem::read_symlink(link, ignored) == name) return true;
  }
  return testing::read_file("/proc/self/mountinfo").find(name) !=
         std::string::npos;
}

std::string network_of(const NetLab& lab, int host) {
  return line_of(lab.on(host, {"readlink", "/proc/self/ns/net"}));
}

TEST(NetLab, HostsReachEachOtherThroughTheirCables) {
  LOCKSTEP_NEED_NET_LAB();
  NetLab lab(2);
  const Route route(lab);
  EXPECT_TRUE(route.is_open());
  lab.cut(1);
  EXPECT_THAT(route.reach(1), HasSubstr("no store at"));
  lab.mend(1);
  EXPECT_TRUE(route.is_open());
  lab.cut(0);
  EXPECT_THAT(route.reach(1), HasSubstr("no store at"));
  lab.mend(0);
  EXPECT_TRUE(route.is_open());
}

TEST(NetLab, HostsAreNotReachedFromAnotherLab) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(1);
  const NetLab other(2);
  EXPECT_EQ(lab.address(0), other.address(0));
  Child server(
      lab.on(0, {LOCKSTEP_STORE_WORKER, "serve", kSecret, lab.address(0)}));
  const auto port = server.read_line(Deadline::in(30s)).value_or("no port");
  const std::vector<std::string> reach = {
      LOCKSTEP_STORE_WORKER, "reach", kSecret, lab.address(0), port, "1", "1"};
  EXPECT_THAT(line_of(other.on(1, reach)), HasSubstr("no store at"));
  EXPECT_THAT(line_of(lab.on(0, reach)), Not(HasSubstr("no store at")));
}

TEST(NetLab, ALimitSlowsAndIsLifted) {
  LOCKSTEP_NEED_NET_LAB();
  NetLab lab(2);
  const Route route(lab);
  const double free_time = std::stod(route.reach(30, kMega));
  for (const int host : {0, 1}) {
    lab.limit(host, 10);
    // 1 MB takes 0.8 s, without what the bucket holds.
    const double limited = std::stod(route.reach(30, kMega));
    EXPECT_GT(limited, 0.4);
    EXPECT_GT(limited, 5 * free_time);
    lab.limit(host, 0);
    EXPECT_LT(std::stod(route.reach(30, kMega)), limited / 2);
  }
}

TEST(NetLab, OwnProcessNumbersMakeAnotherMachine) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  const std::vector<std::string> ask = {"readlink", "/proc/self/ns/pid"};
  const auto ours = std::filesystem::read_symlink("/proc/self/ns/pid").string();
  EXPECT_EQ(line_of(lab.on(0, ask)), ours);
  const auto own = line_of(lab.on(0, ask, NetLab::Pids::kOwn));
  EXPECT_THAT(own, StartsWith("pid:["));
  EXPECT_NE(own, ours);

  Child fails(lab.on(0, {"sh", "-c", "exit 7"}, NetLab::Pids::kOwn));
  EXPECT_EQ(exit_code(fails), 7);
}

TEST(NetLab, AThreadCanVisit) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  const auto here = [] {
    return std::filesystem::read_symlink("/proc/thread-self/ns/net").string();
  };
  const auto home = here();
  std::unique_ptr<TcpStoreServer> server;
  {
    const NetLab::Visit visit(lab, 0);
    EXPECT_EQ(here(), network_of(lab, 0));
    server = std::make_unique<TcpStoreServer>(lab.address(0), 0, kSecret);
  }
  EXPECT_EQ(here(), home);
  std::thread guest([&] {
    const NetLab::Visit visit(lab, 1);
    TcpStore(lab.address(0), server->port(), kSecret).set("hello", "there");
  });
  guest.join();
}

TEST(NetLab, LeavesNothing) {
  LOCKSTEP_NEED_NET_LAB();
  std::string network;
  std::unique_ptr<Child> inhabitant;
  {
    const NetLab lab(1);
    network = network_of(lab, 0);
    EXPECT_THAT(network, StartsWith("net:["));
    EXPECT_TRUE(exists(network));
    inhabitant = std::make_unique<Child>(lab.on(0, {"sleep", "600"}));
    ASSERT_TRUE(eventually([&] {
      return std::filesystem::read_symlink(
                 fmt::format("/proc/{}/ns/net", inhabitant->pid())) == network;
    }));
  }
  EXPECT_FALSE(exists(network));
  EXPECT_EQ(exit_code(*inhabitant), -SIGKILL);
}

// Of a lab whose owner is killed, with somebody on each of its hosts.
[[noreturn]] void own_a_lab(int out, const std::string& mark) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::putenv(const_cast<char*>(mark.c_str()));  // holders have it, too
  const NetLab lab(2);
  const Child shared(lab.on(0, {"sleep", "600"}));
  const Child own(lab.on(1, {"sleep", "600"}, NetLab::Pids::kOwn));
  const std::string line = network_of(lab, 0) + " " + network_of(lab, 1) + "\n";
  if (::write(out, line.data(), line.size()) < 0) ::_exit(1);
  for (;;) ::pause();
}

TEST(NetLab, LeavesNothingWhenItsOwnerIsKilled) {
  LOCKSTEP_NEED_NET_LAB();
  const std::string mark = fmt::format("LOCKSTEP_TEST_MARK={}", ::getpid());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t owner = ::fork();
  if (owner == 0) own_a_lab(ends[1], mark);
  ::close(ends[1]);
  FILE* const lines = ::fdopen(ends[0], "r");
  char first[64] = "";
  char second[64] = "";
  EXPECT_EQ(std::fscanf(lines, "%63s %63s", first, second), 2);
  EXPECT_TRUE(exists(first));
  EXPECT_TRUE(exists(second));
  // The switch's and two hosts', two that sleep, and one that waits for one.
  EXPECT_TRUE(eventually(
      [&] { return testing::processes_with(mark).size() == 3 + 2 + 1; }));

  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  std::fclose(lines);
  EXPECT_TRUE(eventually([&] {
    return testing::processes_with(mark).empty() && !exists(first) &&
           !exists(second);
  }));
}

TEST(NetLab, SaysWhatFailed) {
  LOCKSTEP_NEED_NET_LAB();
  NetLab lab(1);
  EXPECT_THROW(lab.cut(1), std::runtime_error);
  EXPECT_THROW(lab.limit(1, 10), std::out_of_range);
}

TEST(NetLab, RealLaunchersRunRanksOnBothHosts) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  const testing::TempDir directory;
  const std::string secret = directory.file("secret");
  testing::write_file(secret, "no one else knows this very long line\n");
  std::filesystem::permissions(secret, std::filesystem::perms(0600));
  const auto launch = [&](int host) {
    return std::make_unique<Child>(
        lab.on(host,
               {LOCKSTEP_TOOL, "run", "-n", "2", "--nnodes", "2", "--node-rank",
                std::to_string(host), "--rendezvous", lab.address(0) + ":7000",
                "--secret-file", secret, "--timeout", "60", "--",
                LOCKSTEP_HELLO_RANKS},
               NetLab::Pids::kOwn),
        /*with_errors=*/true);
  };
  const auto first = launch(0);
  const auto second = launch(1);
  std::string said;
  for (const auto& line : first->read_all(Deadline::in(60s))) {
    said += line + "\n";
  }
  EXPECT_EQ(exit_code(*first), 0) << said;
  EXPECT_EQ(exit_code(*second), 0);
  EXPECT_THAT(said, HasSubstr("rank 3 of 4"));
  EXPECT_THAT(said, HasSubstr("all 4 ranks have met"));
}

}  // namespace
}  // namespace lockstep

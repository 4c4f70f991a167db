// SPDX-License-Identifier: Apache-2.0
// Ranks on several hosts (network namespaces), started by real launchers.
#include <sys/wait.h>

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "support/child.h"
#include "support/net_lab.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using ::testing::HasSubstr;
using testing::NetLab;

// A launcher on each host of a lab, with so many ranks each.
class HostsJob {
 public:
  HostsJob(const NetLab& lab, int ranks_per_host,
           const std::vector<std::string>& options,
           const std::vector<std::string>& program,
           NetLab::Pids pids = NetLab::Pids::kOwn) {
    const std::string secret = directory_.file("secret");
    testing::write_file(secret, "no one else knows this very long line\n");
    std::filesystem::permissions(secret, std::filesystem::perms(0600));
    for (int host = 0; host < lab.hosts(); ++host) {
      std::vector<std::string> command = {
          "env",
          "LOCKSTEP_SOCKET_IFNAME=" + lab.interface(host),
          LOCKSTEP_TOOL,
          "run",
          "-n",
          std::to_string(ranks_per_host),
          "--nnodes",
          std::to_string(lab.hosts()),
          "--node-rank",
          std::to_string(host),
          "--rendezvous",
          lab.address(0) + ":7000",
          "--secret-file",
          secret,
          "--timeout",
          "60"};
      command.insert(command.end(), options.begin(), options.end());
      command.push_back("--");
      command.insert(command.end(), program.begin(), program.end());
      launchers_.push_back(std::make_unique<Child>(lab.on(host, command, pids),
                                                   /*with_errors=*/true));
    }
  }

  // What host 0 said; the test fails unless all launchers succeeded.
  std::string finish(std::chrono::seconds limit) {
    const Deadline deadline = Deadline::in(limit);
    std::string said;
    for (const auto& launcher : launchers_) {
      const auto lines = launcher->read_all(deadline);
      const std::string text = fmt::format("{}\n", fmt::join(lines, "\n"));
      if (deadline.passed()) {
        ADD_FAILURE() << "not done in time:\n" << text;
        return text;
      }
      EXPECT_EQ(launcher->wait(), 0) << text;
      if (said.empty()) said = text;
    }
    return said;
  }

 private:
  const testing::TempDir directory_;
  std::vector<std::unique_ptr<Child>> launchers_;
};

TEST(GlooHosts, AutoIsGlooBetweenHosts) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  HostsJob job(lab, 2, {}, {LOCKSTEP_INIT_WORKER});
  EXPECT_THAT(job.finish(60s), HasSubstr("rank 1 of 4 on gloo: 6\n"));
}

// Network namespaces alone do not make another host: memory can be shared.
TEST(GlooHosts, AutoIsShmWhereMemoryCanBeShared) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  HostsJob job(lab, 2, {}, {LOCKSTEP_INIT_WORKER}, NetLab::Pids::kShared);
  EXPECT_THAT(job.finish(60s), HasSubstr("rank 1 of 4 on shm: 6\n"));
}

// The same suites as in tests/contract, with three processes on each host.
std::vector<std::string> suite(const std::string& program,
                               const std::string& filter) {
  return {program, "--gtest_filter=" + filter, "--gtest_fail_fast",
          "--gtest_brief=1"};
}

TEST(GlooHosts, TheContractHolds) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  HostsJob job(lab, 3, {"--backend", "gloo"},
               suite(LOCKSTEP_CONTRACT_TEST, LOCKSTEP_CONTRACT_FILTER));
  EXPECT_THAT(job.finish(600s), HasSubstr("PASSED"));
}

TEST(GlooHosts, TheMatrixHolds) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  HostsJob job(lab, 3, {"--backend", "gloo"},
               suite(LOCKSTEP_MATRIX_TEST, "*BackendMatrix*With4"));
  EXPECT_THAT(job.finish(600s), HasSubstr("PASSED"));
}

TEST(GlooHosts, RandomProgramsRun) {
  LOCKSTEP_NEED_NET_LAB();
  const NetLab lab(2);
  HostsJob job(lab, 3, {"--backend", "gloo"}, suite(LOCKSTEP_RANDOM_TEST, "*"));
  EXPECT_THAT(job.finish(600s), HasSubstr("PASSED"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launch/run_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunPlanTest : public ::testing::Test {
 protected:
  RunPlanTest() {
    options_.command = {"/bin/sh", "-c", "true"};
    for (int i = 0; i < 4; ++i) machine_.cores.push_back({0, {i}});
  }

  RunPlan plan() const { return make_run_plan(options_, machine_); }

  std::string complaint() const {
    try {
      plan();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

  std::string make_program(const std::string& name, mode_t mode = 0755) {
    const std::string path = directory_.file(name);
    testing::write_file(path, "#!/bin/sh\n");
    ::chmod(path.c_str(), mode);
    return path;
  }

  void span_hosts(int nodes, int node_rank) {
    options_.nodes = nodes;
    options_.node_rank = node_rank;
    options_.rendezvous = "head:29400";
    options_.secret_file = "/some/secret";
  }

  using Variables = std::map<std::string, std::string>;
  Variables variables_of(const JobFacts& job, int local) const {
    Variables variables;
    const auto ranks = rank_plans(options_, plan(), job);
    for (const auto& entry : ranks.at(local).command.environment) {
      const size_t equals = entry.find('=');
      const bool is_new =
          variables.emplace(entry.substr(0, equals), entry.substr(equals + 1))
              .second;
      EXPECT_TRUE(is_new) << entry << " is there twice";
    }
    return variables;
  }

  JobFacts job() const {
    JobFacts facts;
    facts.world_size = 4;
    facts.master_port = 4321;
    facts.store_url = "tcp://127.0.0.1:1234";
    facts.secret = "s3cret";
    facts.launcher_id = "launcher7";
    facts.run_id = "job.2";
    facts.round = 2;
    return facts;
  }

  testing::TempDir directory_;
  testing::CleanEnvironment env_;
  RunOptions options_;
  Machine machine_;
};

TEST_F(RunPlanTest, TakesAProgramWithASlashAsItIs) {
  EXPECT_EQ(plan().program, "/bin/sh");
  options_.command = {make_program("mine")};
  EXPECT_EQ(plan().program, options_.command[0]);
}

TEST_F(RunPlanTest, FindsAProgramInThePath) {
  const testing::TempDir second;
  env_.set("PATH", second.path() + ":" + directory_.path() + ":/bin");
  options_.command = {"mine"};
  const std::string path = make_program("mine");
  EXPECT_EQ(plan().program, path);
  // What cannot be started is passed over, and the first counts.
  testing::write_file(second.file("mine"), "");
  EXPECT_EQ(plan().program, path);
  ::chmod(second.file("mine").c_str(), 0755);
  EXPECT_EQ(plan().program, second.file("mine"));
}

TEST_F(RunPlanTest, DoesNotTakeADirectoryForAProgram) {
  std::filesystem::create_directory(directory_.file("mine"));
  env_.set("PATH", directory_.path());
  options_.command = {"mine"};
  EXPECT_THAT(complaint(), HasSubstr("no program 'mine' in PATH"));
  options_.command = {directory_.file("mine")};
  EXPECT_THAT(complaint(), HasSubstr("there is no program"));
}

TEST_F(RunPlanTest, HintsAtAProgramOfThisDirectory) {
  make_program("mine");
  env_.set("PATH", "/bin");
  options_.command = {"mine"};
  EXPECT_THAT(complaint(), Not(HasSubstr("./mine")));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  EXPECT_THAT(complaint(), AllOf(HasSubstr("no program 'mine' in PATH"),
                                 HasSubstr("write ./mine")));
  options_.command = {"./mine"};
  EXPECT_EQ(plan().program, "./mine");
  std::filesystem::current_path(before);
}

// "As a shell would find it": an empty entry is the current directory.
TEST_F(RunPlanTest, TakesAnEmptyEntryOfThePathForThisDirectory) {
  make_program("mine-in-an-empty-entry");
  options_.command = {"mine-in-an-empty-entry"};
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  for (const char* path : {":/bin", "/bin:", "/bin::/usr/bin"}) {
    env_.set("PATH", path);
    EXPECT_EQ(complaint(), "no error") << "PATH=" << path;
  }
  std::filesystem::current_path(before);
}

TEST_F(RunPlanTest, SaysHowToMakeAProgramExecutable) {
  const std::string path = make_program("mine", 0644);
  options_.command = {path};
  EXPECT_THAT(complaint(), AllOf(HasSubstr("not executable"),
                                 HasSubstr("chmod +x " + path)));
}

TEST_F(RunPlanTest, NeedsSomethingToRun) {
  options_.command = {};
  EXPECT_THAT(complaint(), HasSubstr("nothing to run"));
  options_.command = {""};
  EXPECT_THAT(complaint(), HasSubstr("name of the program is empty"));
  options_.command = {directory_.file("missing")};
  EXPECT_THAT(complaint(), HasSubstr(directory_.file("missing")));
}

TEST_F(RunPlanTest, ChecksTheNumbers) {
  const RunOptions good = options_;
  options_.ranks = -1;
  EXPECT_THAT(complaint(), HasSubstr("-1 ranks"));
  options_.ranks = 4097;
  EXPECT_THAT(complaint(), HasSubstr("4097 ranks"));
  options_ = good;
  options_.threads = 0;
  EXPECT_THAT(complaint(), HasSubstr("--threads"));
  options_ = good;
  options_.max_restarts = -1;
  EXPECT_THAT(complaint(), HasSubstr("--max-restarts"));
  options_ = good;
  options_.bind = "socket";
  EXPECT_THAT(complaint(), AllOf(HasSubstr("--bind"), HasSubstr("'socket'")));
}

TEST_F(RunPlanTest, ChecksTheHosts) {
  options_.node_rank = 1;
  EXPECT_THAT(complaint(), HasSubstr("--node-rank 1 without --nnodes"));
  for (const int nodes : {0, -1}) {
    options_.nodes = nodes;
    EXPECT_THAT(complaint(), HasSubstr("--nnodes must be"));
  }
  span_hosts(2, 2);
  EXPECT_THAT(complaint(), HasSubstr("--node-rank 2 is not in 0..1"));
  span_hosts(2, -1);
  EXPECT_THAT(complaint(), HasSubstr("--node-rank -1"));
  span_hosts(2, 0);
  options_.rendezvous = "";
  EXPECT_THAT(complaint(), HasSubstr("--rendezvous HOST:PORT"));
  options_.rendezvous = "head";
  EXPECT_THAT(complaint(), HasSubstr("the port is missing"));
  options_.rendezvous = "head:0";
  EXPECT_THAT(complaint(), HasSubstr("--rendezvous needs a port"));
  span_hosts(2, 0);
  options_.secret_file = "";
  EXPECT_THAT(complaint(), AllOf(HasSubstr("--secret-file"),
                                 HasSubstr("LOCKSTEP_SECRET_FILE")));
  span_hosts(2, 0);
  EXPECT_EQ(complaint(), "no error");
}

TEST_F(RunPlanTest, HasARankPerCoreByDefault) {
  EXPECT_EQ(plan().ranks, 4);
  options_.ranks = 2;
  EXPECT_EQ(plan().ranks, 2);
}

TEST_F(RunPlanTest, MeetsOnThisHostOrWhereItIsTold) {
  EXPECT_EQ(to_text(plan().rendezvous), "127.0.0.1:0");
  span_hosts(2, 1);
  EXPECT_EQ(to_text(plan().rendezvous), "head:29400");
}

TEST_F(RunPlanTest, BindsAsItIsTold) {
  options_.ranks = 2;
  EXPECT_THAT(plan().bindings[1].cpus, ElementsAre(2, 3));
  options_.bind = "numa";
  EXPECT_THAT(plan().bindings[1].cpus, ElementsAre(0, 1, 2, 3));
  options_.bind = "none";
  EXPECT_THAT(plan().bindings[1].cpus, IsEmpty());
  options_.bind = "core";
  options_.ranks = 5;
  EXPECT_THAT(plan().note, HasSubstr("5 ranks on 4 cores"));
}

TEST_F(RunPlanTest, TellsEachRankItsPlace) {
  options_.ranks = 2;
  for (int local = 0; local < 2; ++local) {
    auto set = variables_of(job(), local);
    EXPECT_EQ(set["RANK"], std::to_string(local));
    EXPECT_EQ(set["WORLD_SIZE"], "4");
    EXPECT_EQ(set["LOCAL_RANK"], std::to_string(local));
    EXPECT_EQ(set["LOCAL_WORLD_SIZE"], "2");
    EXPECT_EQ(set["NODE_RANK"], "0");
    EXPECT_EQ(set["GROUP_RANK"], "0");
    EXPECT_EQ(set["MASTER_ADDR"], "127.0.0.1");
    EXPECT_EQ(set["MASTER_PORT"], "4321");
    EXPECT_EQ(set["LOCKSTEP_STORE"], "tcp://127.0.0.1:1234");
    EXPECT_EQ(set["LOCKSTEP_SECRET"], "s3cret");
    EXPECT_EQ(set["LOCKSTEP_RUN_ID"], "job.2");
    EXPECT_EQ(set["LOCKSTEP_RESTART_COUNT"], "2");
    EXPECT_EQ(set["LOCKSTEP_LAUNCHER"], "launcher7");
    EXPECT_EQ(set["OMP_NUM_THREADS"], "2");
    EXPECT_EQ(set.count("LOCKSTEP_BACKEND"), 0u);
  }
}

TEST_F(RunPlanTest, NeverPutsTheSecretOnACommandLine) {
  for (const auto& rank : rank_plans(options_, plan(), job())) {
    EXPECT_EQ(rank.command.arguments, options_.command);
    EXPECT_EQ(rank.command.program, "/bin/sh");
  }
}

TEST_F(RunPlanTest, HandsOnTheEnvironment) {
  env_.set("LOCKSTEP_TEST_INHERITED", "a=b");
  env_.set("RANK", "99");  // replaced, not doubled
  auto set = variables_of(job(), 0);
  EXPECT_EQ(set["LOCKSTEP_TEST_INHERITED"], "a=b");
  EXPECT_EQ(set["RANK"], "0");
}

TEST_F(RunPlanTest, LetsTheUsersVariablesWin) {
  env_.set("LOCKSTEP_TEST_MINE", "inherited");
  options_.environment = {{"OMP_NUM_THREADS", "64"},
                          {"LOCKSTEP_TEST_MINE", "given"},
                          {"EMPTY", ""}};
  auto set = variables_of(job(), 0);
  EXPECT_EQ(set["OMP_NUM_THREADS"], "64");
  EXPECT_EQ(set["LOCKSTEP_TEST_MINE"], "given");
  EXPECT_EQ(set.count("EMPTY"), 1u);
}

TEST_F(RunPlanTest, HandsOnTheBackend) {
  options_.backend = "tcp";
  EXPECT_EQ(variables_of(job(), 0)["LOCKSTEP_BACKEND"], "tcp");
}

TEST_F(RunPlanTest, SaysHowWideAStatusLineMayBe) {
  auto facts = job();
  facts.columns = 80;
  EXPECT_EQ(variables_of(facts, 0)["LOCKSTEP_STATUS_COLUMNS"], "76");
  facts.first_rank = 10;
  EXPECT_EQ(variables_of(facts, 0)["LOCKSTEP_STATUS_COLUMNS"], "75");
  options_.prefix = false;
  EXPECT_EQ(variables_of(facts, 0)["LOCKSTEP_STATUS_COLUMNS"], "80");
}

TEST_F(RunPlanTest, SaysNothingOfStatusLinesWhereNobodySeesThem) {
  env_.set("LOCKSTEP_STATUS_COLUMNS", "80");  // of a launcher around this one
  EXPECT_EQ(variables_of(job(), 0).count("LOCKSTEP_STATUS_COLUMNS"), 0u);
}

TEST_F(RunPlanTest, SetsTheThreadsItIsTold) {
  options_.threads = 3;
  EXPECT_EQ(variables_of(job(), 0)["OMP_NUM_THREADS"], "3");
}

TEST_F(RunPlanTest, CountsRanksOnFromTheHostsBefore) {
  options_.ranks = 2;
  span_hosts(3, 1);
  auto facts = job();
  facts.first_rank = 5;
  facts.world_size = 11;
  const auto ranks = rank_plans(options_, plan(), facts);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].rank, 5);
  EXPECT_EQ(ranks[1].rank, 6);
  EXPECT_EQ(ranks[1].output.rank, 6);
  auto set = variables_of(facts, 1);
  EXPECT_EQ(set["RANK"], "6");
  EXPECT_EQ(set["LOCAL_RANK"], "1");
  EXPECT_EQ(set["NODE_RANK"], "1");
  EXPECT_EQ(set["GROUP_RANK"], "1");
  EXPECT_EQ(set["WORLD_SIZE"], "11");
  EXPECT_EQ(set["MASTER_ADDR"], "head");
}

TEST_F(RunPlanTest, BindsEachRankToItsShare) {
  options_.ranks = 2;
  const auto ranks = rank_plans(options_, plan(), job());
  EXPECT_THAT(ranks[0].command.cpus, ElementsAre(0, 1));
  EXPECT_THAT(ranks[1].command.cpus, ElementsAre(2, 3));
}

TEST_F(RunPlanTest, LogsPerRankAndRound) {
  options_.ranks = 2;
  EXPECT_EQ(rank_plans(options_, plan(), job())[0].output.log_path, "");
  options_.log_dir = "/logs";
  auto facts = job();
  facts.first_rank = 4;
  const auto ranks = rank_plans(options_, plan(), facts);
  EXPECT_EQ(ranks[0].output.log_path, "/logs/rank-4.round-2.log");
  EXPECT_EQ(ranks[1].output.log_path, "/logs/rank-5.round-2.log");
}

TEST_F(RunPlanTest, HandsOnWhetherToPrefix) {
  EXPECT_TRUE(rank_plans(options_, plan(), job())[0].output.prefix);
  options_.prefix = false;
  EXPECT_FALSE(rank_plans(options_, plan(), job())[0].output.prefix);
}

TEST_F(RunPlanTest, DescribesARankWithoutItsSecret) {
  options_.ranks = 2;
  options_.environment = {{"MINE", "given"}};
  auto facts = job();
  facts.first_rank = 2;
  const auto ranks = rank_plans(options_, plan(), facts);
  const auto text = describe(ranks[1], options_, plan(), facts);
  EXPECT_THAT(text, HasSubstr("rank 3 on cpu 2-3: /bin/sh -c true\n"));
  EXPECT_THAT(text, HasSubstr("  RANK=3\n"));
  EXPECT_THAT(text, HasSubstr("  LOCAL_RANK=1\n"));
  EXPECT_THAT(text, HasSubstr("  MINE=given\n"));
  EXPECT_THAT(text, HasSubstr("LOCKSTEP_SECRET=(not shown)"));
  EXPECT_THAT(text, Not(HasSubstr("s3cret")));
}

TEST_F(RunPlanTest, DescribesARankThatIsNotBound) {
  options_.bind = "none";
  const auto ranks = rank_plans(options_, plan(), job());
  EXPECT_THAT(describe(ranks[0], options_, plan(), job()),
              HasSubstr("rank 0 on any core:"));
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/round.h"
#include "lockstep/base/error.h"
#include "lockstep/store/hash_store.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/no_host.h"
#include "support/support.h"
#include "unit/launch/launch_support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WorldTest : public ::testing::Test {
 protected:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  void set(const Variables& variables) {
    for (const auto& [name, value] : variables) env_.set(name, value);
  }

  static WorldOptions quick() {
    WorldOptions options;
    options.timeout = 20s;
    return options;
  }

  template <typename Type>
  static std::string complaint(const WorldOptions& options = quick()) {
    try {
      find_world(options);
    } catch (const Type& error) {
      return error.what();
    }
    return "no error";
  }

  // A port that is free; whoever wants to listen there may have to try again.
  static int free_port() { return TcpStoreServer("127.0.0.1", 0, "").port(); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(directory_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  testing::TempDir directory_;  // for this user alone: mkdtemp(3) sees to it
  testing::CleanEnvironment env_;
};

TEST_F(WorldTest, IsOfOneWhenNobodySaysAnything) {
  const World world = find_world();
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.local_rank, 0);
  EXPECT_EQ(world.local_size, 1);
  EXPECT_EQ(world.started_by, "nobody");
  world.store->set("k", "v");
  EXPECT_EQ(to_string(world.store->get("k")), "v");
}

TEST_F(WorldTest, IsWhatTheCallerSays) {
  set({{"LOCKSTEP_RANK", "3"},
       {"LOCKSTEP_WORLD_SIZE", "4"},
       {"LOCKSTEP_STORE", "nonsense"}});
  WorldOptions options;
  options.rank = 1;
  options.size = 2;
  options.store = std::make_shared<HashStore>();
  const World world = find_world(options);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.size, 2);
  world.store->set("k", "v");
  EXPECT_EQ(options.store->num_keys(), 1);
}

TEST_F(WorldTest, PrefersTheCallersUrlToTheEnvironments) {
  set({{"LOCKSTEP_STORE", "nonsense"}});
  WorldOptions options;
  options.rank = 0;
  options.size = 1;
  options.store_url = "hash://";
  EXPECT_NO_THROW(find_world(options).store->set("k", "v"));
}

TEST_F(WorldTest, RefusesToMeetOthersInAStoreOfItsOwn) {
  WorldOptions options;
  options.rank = 0;
  options.size = 2;
  options.store_url = "hash://";
  EXPECT_THAT(complaint<UsageError>(options), HasSubstr("own process"));
}

TEST_F(WorldTest, ChecksWhatTheCallerSays) {
  WorldOptions options;
  options.size = 2;
  EXPECT_THAT(complaint<UsageError>(options), HasSubstr("no rank"));
  options.rank = 2;
  EXPECT_THAT(complaint<UsageError>(options), HasSubstr("rank 2"));
  options.rank = -1;
  EXPECT_THAT(complaint<UsageError>(options), HasSubstr("rank -1"));
  options.rank = 0;
  options.size = 0;
  EXPECT_THAT(complaint<UsageError>(options), HasSubstr("world of 0"));
}

TEST_F(WorldTest, NeedsAStoreForMoreThanOne) {
  WorldOptions options;
  options.rank = 1;
  options.size = 2;
  EXPECT_THAT(complaint<UsageError>(options),
              AllOf(HasSubstr("rank 1 of 2"), HasSubstr("LOCKSTEP_STORE")));
  set({{"LOCKSTEP_RANK", "0"}, {"LOCKSTEP_WORLD_SIZE", "2"}});
  EXPECT_THAT(complaint<UsageError>(),
              AllOf(HasSubstr("rank 0 of 2"), HasSubstr("LOCKSTEP_STORE")));
}

TEST_F(WorldTest, MeetsInAFileByUrl) {
  set({{"LOCKSTEP_STORE", "file://" + directory_.file("store")},
       {"LOCKSTEP_WORLD_SIZE", "2"},
       {"LOCKSTEP_RANK", "0"}});
  auto zero = std::make_optional(find_world(quick()));
  set({{"LOCKSTEP_RANK", "1"}});
  auto one = std::make_optional(find_world(quick()));
  zero->store->set("from 0", "hello");
  EXPECT_EQ(to_string(one->store->get("from 0")), "hello");
  EXPECT_THAT(files(), ElementsAre("store"));
  zero.reset();
  one.reset();
  EXPECT_THAT(files(), IsEmpty());
}

// The FileStore can tell such a file only if it was given no run id.
TEST_F(WorldTest, DoesNotReadAFileThatAJobWithoutAnIdHasLeft) {
  const testing::LogCapture log;
  WorldOptions options = quick();
  options.rank = 0;
  options.size = 2;
  options.store_url = "file://" + directory_.file("store");
  const pid_t crashed = ::fork();
  if (crashed == 0) {
    const World world = find_world(options);
    world.store->set("from 0", "stale");
    ::_exit(0);  // without leaving the store
  }
  int status = -1;
  ASSERT_EQ(::waitpid(crashed, &status, 0), crashed);
  ASSERT_EQ(status, 0);
  ASSERT_THAT(files(), ElementsAre("store"));
  EXPECT_FALSE(find_world(options).store->check({"from 0"}));
}

TEST_F(WorldTest, MeetsAtAServerByUrl) {
  const std::string secret = make_secret();
  const TcpStoreServer server("127.0.0.1", 0, secret);
  // What `lockstep run` sets.
  set({{"LOCKSTEP_STORE", "tcp://127.0.0.1:" + std::to_string(server.port())},
       {"LOCKSTEP_SECRET", secret},
       {"LOCKSTEP_RUN_ID", "job.2"},
       {"LOCKSTEP_RESTART_COUNT", "2"},
       {"WORLD_SIZE", "4"},
       {"RANK", "3"},
       {"LOCAL_RANK", "1"},
       {"LOCAL_WORLD_SIZE", "2"},
       {"NODE_RANK", "1"}});
  const World world = find_world(quick());
  EXPECT_EQ(world.started_by, "lockstep run");
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.size, 4);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.node_rank, 1);
  EXPECT_EQ(world.run_id, "job.2");
  EXPECT_EQ(world.restart_count, 2);
  // The run has a prefix of its own.
  world.store->set("k", "v");
  TcpStore all("127.0.0.1", server.port(), secret);
  EXPECT_FALSE(all.check({"k"}));
  EXPECT_EQ(all.num_keys(), 1);
  EXPECT_EQ(world.store->num_keys(), 1);
}

TEST_F(WorldTest, TurnsAwayAProcessOfAnEarlierRound) {
  const TcpStoreServer server("127.0.0.1", 0, "");
  TcpStore launcher("127.0.0.1", server.port(), "");
  set({{"LOCKSTEP_STORE", "tcp://127.0.0.1:" + std::to_string(server.port())},
       {"LOCKSTEP_RUN_ID", "job.0"},
       {"WORLD_SIZE", "2"},
       {"RANK", "1"}});
  detail::begin_round(launcher, "job.0");
  EXPECT_NO_THROW(find_world(quick()));
  detail::begin_round(launcher, "job.1");
  EXPECT_THAT(complaint<MismatchError>(),
              AllOf(HasSubstr("job.0"), HasSubstr("job.1")));
  set({{"LOCKSTEP_RUN_ID", "job.1"}});
  EXPECT_NO_THROW(find_world(quick()));
}

TEST_F(WorldTest, KeepsTheRoundsApart) {
  WorldOptions options;
  options.store = std::make_shared<HashStore>();
  set({{"RANK", "0"},
       {"WORLD_SIZE", "1"},
       {"TORCHELASTIC_RUN_ID", "job"},
       {"TORCHELASTIC_RESTART_COUNT", "0"}});
  find_world(options).store->set("k", "v");
  set({{"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_FALSE(find_world(options).store->check({"k"}));
}

class TorchrunWorld : public WorldTest {
 protected:
  void SetUp() override {
    set({{"WORLD_SIZE", "2"},
         {"LOCAL_WORLD_SIZE", "2"},
         {"MASTER_ADDR", "127.0.0.1"},
         {"MASTER_PORT", "1"}});
  }

  // Rank 0, which serves at the port that `tell` has put into the environment.
  World serve_at_free_port(const std::function<void(int)>& tell) {
    set({{"RANK", "0"}, {"LOCAL_RANK", "0"}});
    for (int tries = 0;; ++tries) {
      port_ = free_port();
      tell(port_);
      try {
        return find_world(quick());
      } catch (const SystemError& error) {
        if (error.error_number() != EADDRINUSE || tries == 20) throw;
      }
    }
  }

  // They share a store, which is at `port_`.
  void expect_to_meet(const World& zero) {
    set({{"RANK", "1"}, {"LOCAL_RANK", "1"}});
    const World one = find_world(quick());
    EXPECT_EQ(zero.started_by, "torchrun");
    EXPECT_EQ(zero.rank, 0);
    EXPECT_EQ(one.rank, 1);
    EXPECT_EQ(one.local_rank, 1);
    one.store->set("from 1", "hello");
    EXPECT_EQ(to_string(zero.store->get("from 1")), "hello");
  }

  int port_ = 0;
};

TEST_F(TorchrunWorld, MeetsBesideTheMasterPort) {
  const World zero = serve_at_free_port([&](int port) {
    set({{"MASTER_PORT", std::to_string(port - 1)}});
  });
  expect_to_meet(zero);
}

TEST_F(TorchrunWorld, MeetsAtThePortItIsTold) {
  const World zero = serve_at_free_port([&](int port) {
    set({{"LOCKSTEP_PORT", std::to_string(port)}});
  });
  expect_to_meet(zero);
}

TEST_F(TorchrunWorld, MeetsOnOneHostWhateverTheMasterIsCalled) {
  set({{"MASTER_ADDR", testing::kNoHost}});
  const World zero = serve_at_free_port([&](int port) {
    set({{"LOCKSTEP_PORT", std::to_string(port)}});
  });
  expect_to_meet(zero);
}

TEST_F(TorchrunWorld, MeetsOverHostsThatShareASecret) {
  set({{"LOCAL_WORLD_SIZE", "1"}, {"LOCKSTEP_SECRET", "shared"}});
  const World zero = serve_at_free_port([&](int port) {
    set({{"LOCKSTEP_PORT", std::to_string(port)}});
  });
  expect_to_meet(zero);
  set({{"LOCKSTEP_SECRET", "another"}});
  EXPECT_NE(complaint<PeerError>(), "no error");
}

TEST_F(TorchrunWorld, NeedsASecretOverSeveralHosts) {
  set({{"LOCAL_WORLD_SIZE", "1"}, {"RANK", "0"}});
  EXPECT_THAT(complaint<UsageError>(), HasSubstr("LOCKSTEP_SECRET_FILE"));
  set({{"RANK", "1"}});
  EXPECT_THAT(complaint<UsageError>(), HasSubstr("LOCKSTEP_SECRET_FILE"));
}

TEST_F(TorchrunWorld, ComplainsOfAPortOutOfRange) {
  set({{"RANK", "1"}, {"MASTER_PORT", "65535"}});
  EXPECT_THAT(complaint<UsageError>(),
              AllOf(HasSubstr("65536"), HasSubstr("LOCKSTEP_PORT")));
  set({{"LOCKSTEP_PORT", "0"}});
  EXPECT_THAT(complaint<UsageError>(), HasSubstr("LOCKSTEP_PORT"));
}

TEST_F(TorchrunWorld, NeedsNoPortAlone) {
  set({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_NO_THROW(find_world(quick()).store->set("k", "v"));
}

class MpiWorld : public WorldTest {
 protected:
  void SetUp() override {
    set({{"OMPI_COMM_WORLD_SIZE", "2"},
         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
         {"PMIX_NAMESPACE", "prterun-host-77@1"},
         {"XDG_RUNTIME_DIR", directory_.path()}});
  }

  World rank(int rank) {
    set({{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
         {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)}});
    return find_world(quick());
  }
};

TEST_F(MpiWorld, MeetsInAFileOfItsJobOnOneHost) {
  auto zero = std::make_optional(rank(0));
  auto one = std::make_optional(rank(1));
  EXPECT_EQ(one->started_by, "Open MPI");
  EXPECT_EQ(one->rank, 1);
  EXPECT_EQ(one->local_rank, 1);
  EXPECT_EQ(one->local_size, 2);
  EXPECT_THAT(files(), ElementsAre("lockstep-prterun-host-77-1"));
  zero->store->set("from 0", "hello");
  EXPECT_EQ(to_string(one->store->get("from 0")), "hello");
  zero.reset();
  EXPECT_THAT(files(), ElementsAre("lockstep-prterun-host-77-1"));
  one.reset();
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(MpiWorld, KeepsItsFileInsideTheDirectory) {
  set({{"PMIX_NAMESPACE", "../../etc/job 1"}});
  const World zero = rank(0);
  EXPECT_THAT(files(), ElementsAre("lockstep-..-..-etc-job-1"));
}

// Open MPI's ids have the name of the host in them.
TEST_F(MpiWorld, MeetsThoughTheIdOfTheJobIsLong) {
  set({{"PMIX_NAMESPACE", "prterun-" + std::string(100, 'h') + "-77@1"}});
  const World zero = rank(0);
  const World one = rank(1);
  zero.store->set("from 0", "hello");
  EXPECT_EQ(to_string(one.store->get("from 0")), "hello");
}

TEST_F(MpiWorld, GivesJobsOfOneHostTheirOwnFiles) {
  const World zero = rank(0);
  set({{"PMIX_NAMESPACE", "prterun-host-78@1"}});
  const World other = rank(0);
  zero.store->set("k", "v");
  EXPECT_FALSE(other.store->check({"k"}));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(MpiWorld, MeetsOnOneHostOfSlurmToo) {
  env_.clear("OMPI_COMM_WORLD_SIZE");
  set({{"SLURM_PROCID", "0"},
       {"SLURM_NTASKS", "2"},
       {"SLURM_NNODES", "1"},
       {"SLURM_JOB_ID", "12"},
       {"SLURM_STEP_ID", "3"}});
  const World zero = find_world(quick());
  EXPECT_EQ(zero.started_by, "Slurm");
  EXPECT_EQ(zero.local_size, 2);
  EXPECT_THAT(files(), ElementsAre("lockstep-12.3"));
}

TEST_F(MpiWorld, SaysWhatItNeedsOverSeveralHosts) {
  set({{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "1"}});
  EXPECT_THAT(complaint<UsageError>(),
              AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("Open MPI")));
  set({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}});
  EXPECT_THAT(complaint<UsageError>(), HasSubstr("LOCKSTEP_SECRET_FILE"));
  EXPECT_THAT(files(), IsEmpty());
}

// Not port 1, which is 0 + 1.
TEST_F(MpiWorld, NamesTheMasterPortThatIsMissing) {
  set({{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
       {"OMPI_COMM_WORLD_RANK", "1"},
       {"MASTER_ADDR", "127.0.0.1"},
       {"LOCKSTEP_SECRET", "shared"}});
  WorldOptions options;
  options.timeout = 50ms;
  std::string said = "no error";
  try {
    find_world(options);
  } catch (const Error& error) {
    said = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
  EXPECT_THAT(said, HasSubstr("MASTER_PORT"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "launch/place.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "unit/launch/launch_support.h"

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlaceTest : public ::testing::Test {
 protected:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  void set(const Variables& variables) {
    for (const auto& [name, value] : variables) env_.set(name, value);
  }

  // The message of the UsageError that reading the place throws.
  static std::string complaint() {
    try {
      read_place();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  }

  testing::CleanEnvironment env_;
};

TEST_F(PlaceTest, IsAWorldOfOneWhenNobodySaysAnything) {
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kNobody);
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.size, 1);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.local_size, 1);
  EXPECT_TRUE(place.is_one_host());
}

TEST_F(PlaceTest, ReadsLockstepsOwnVariables) {
  set({{"LOCKSTEP_RANK", "5"},
       {"LOCKSTEP_WORLD_SIZE", "8"},
       {"LOCKSTEP_LOCAL_RANK", "1"},
       {"LOCKSTEP_LOCAL_WORLD_SIZE", "4"},
       {"NODE_RANK", "1"},
       {"LOCKSTEP_RUN_ID", "job.2"},
       {"LOCKSTEP_RESTART_COUNT", "2"}});
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kLockstep);
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.size, 8);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 4);
  EXPECT_EQ(place.node_rank, 1);
  EXPECT_EQ(place.job_id, "job.2");
  EXPECT_EQ(place.restart_count, 2);
  EXPECT_FALSE(place.is_one_host());
}

TEST_F(PlaceTest, TakesTorchrunsLocalNumbersForLockstepToo) {
  set({{"LOCKSTEP_RANK", "3"},
       {"LOCKSTEP_WORLD_SIZE", "4"},
       {"LOCAL_RANK", "1"},
       {"LOCAL_WORLD_SIZE", "2"}});
  EXPECT_EQ(read_place().local_rank, 1);
  EXPECT_EQ(read_place().local_size, 2);
}

TEST_F(PlaceTest, ReadsTorchrunsVariables) {
  set({{"RANK", "6"},
       {"WORLD_SIZE", "8"},
       {"LOCAL_RANK", "2"},
       {"LOCAL_WORLD_SIZE", "4"},
       {"GROUP_RANK", "1"},
       {"MASTER_ADDR", "node7"},
       {"MASTER_PORT", "29500"},
       {"TORCHELASTIC_RUN_ID", "abc"},
       {"TORCHELASTIC_RESTART_COUNT", "3"}});
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kTorchrun);
  EXPECT_EQ(place.rank, 6);
  EXPECT_EQ(place.size, 8);
  EXPECT_EQ(place.local_rank, 2);
  EXPECT_EQ(place.local_size, 4);
  EXPECT_EQ(place.node_rank, 1);
  EXPECT_EQ(place.master_host, "node7");
  EXPECT_EQ(place.master_port, 29500);
  EXPECT_EQ(place.job_id, "abc");
  EXPECT_EQ(place.restart_count, 3);
}

TEST_F(PlaceTest, KnowsLockstepRunByItsStore) {
  set({{"RANK", "1"},
       {"WORLD_SIZE", "2"},
       {"LOCKSTEP_STORE", "tcp://127.0.0.1:1"},
       {"LOCKSTEP_RUN_ID", "r.0"},
       {"TORCHELASTIC_RUN_ID", "not this one"}});
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kLockstep);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.job_id, "r.0");
}

TEST_F(PlaceTest, ReadsOpenMpisVariables) {
  set({{"OMPI_COMM_WORLD_RANK", "3"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
       {"PMIX_NAMESPACE", "prterun-host-77@1"}});
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kOpenMpi);
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.size, 4);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 2);
  EXPECT_EQ(place.job_id, "prterun-host-77@1");
}

// Open MPI's NODE_RANK is the rank *on* the node, over all jobs there.
TEST_F(PlaceTest, DoesNotTakeOpenMpisNodeRankForTheNumberOfTheHost) {
  set({{"OMPI_COMM_WORLD_RANK", "3"},
       {"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
       {"OMPI_COMM_WORLD_NODE_RANK", "3"}});
  EXPECT_TRUE(read_place().is_one_host());
  EXPECT_EQ(read_place().node_rank, 0);
}

TEST_F(PlaceTest, NamesAnMpiJobAfterItsParentWhenItHasNoId) {
  set({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(read_place().job_id, "parent-" + std::to_string(::getppid()));
}

TEST_F(PlaceTest, ReadsMpichsVariables) {
  set({{"PMI_RANK", "1"},
       {"PMI_SIZE", "3"},
       {"MPI_LOCALRANKID", "1"},
       {"MPI_LOCALNRANKS", "3"},
       {"PMI_JOBID", "kvs_12"},
       {"MASTER_ADDR", "head"},
       {"MASTER_PORT", "4000"}});
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kMpich);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.size, 3);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.local_size, 3);
  EXPECT_EQ(place.job_id, "kvs_12");
  EXPECT_EQ(place.master_host, "head");
  EXPECT_EQ(place.master_port, 4000);
}

TEST_F(PlaceTest, ReadsSlurmsVariables) {
  set({{"SLURM_PROCID", "9"},
       {"SLURM_NTASKS", "16"},
       {"SLURM_LOCALID", "1"},
       {"SLURM_NODEID", "2"},
       {"SLURM_NNODES", "4"},
       {"SLURM_JOB_ID", "123456"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_RESTART_COUNT", "1"},
       {"SLURM_JOB_NODELIST", "gpu[07-10]"}});
  const Place place = read_place();
  EXPECT_EQ(place.starter, Starter::kSlurm);
  EXPECT_EQ(place.rank, 9);
  EXPECT_EQ(place.size, 16);
  EXPECT_EQ(place.local_rank, 1);
  EXPECT_EQ(place.node_rank, 2);
  EXPECT_FALSE(place.is_one_host());
  EXPECT_EQ(place.job_id, "123456.0");
  EXPECT_EQ(place.restart_count, 1);
  EXPECT_EQ(place.master_host, "gpu07");
  EXPECT_EQ(place.master_port, 20000 + 123456 % 20000);
}

TEST_F(PlaceTest, KnowsThatASlurmStepOnOneNodeIsOnOneHost) {
  set({{"SLURM_PROCID", "1"},
       {"SLURM_NTASKS", "4"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_NNODES", "1"}});
  EXPECT_TRUE(read_place().is_one_host());
}

TEST_F(PlaceTest, PrefersTheStepToTheAllocationOfSlurm) {
  set({{"SLURM_PROCID", "1"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_STEP_NUM_TASKS", "2"},
       {"SLURM_NTASKS", "8"},
       {"SLURM_STEP_NUM_NODES", "1"},
       {"SLURM_NNODES", "4"}});
  EXPECT_EQ(read_place().size, 2);
  EXPECT_TRUE(read_place().is_one_host());
}

TEST_F(PlaceTest, DoesNotTakeAnAllocationWithoutAStepForAPlace) {
  set({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}});
  EXPECT_EQ(read_place().starter, Starter::kNobody);
  EXPECT_EQ(read_place().size, 1);
  set({{"SLURM_PROCID", "0"}});  // so it is in a batch script
  EXPECT_EQ(read_place().starter, Starter::kNobody);
  EXPECT_EQ(read_place().size, 1);
}

TEST_F(PlaceTest, PrefersSlurmToWhatItsPmiPluginSets) {
  set({{"PMI_RANK", "1"},
       {"PMI_SIZE", "2"},
       {"SLURM_PROCID", "1"},
       {"SLURM_NTASKS", "2"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(read_place().starter, Starter::kSlurm);
  EXPECT_EQ(read_place().local_rank, 1);
}

TEST_F(PlaceTest, AsksTheFamiliesInTheirOrder) {
  const std::vector<std::pair<Starter, Variables>> families = {
      {Starter::kSlurm,
       {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "15"}, {"SLURM_STEP_ID", "0"}}},
      {Starter::kMpich,
       {{"PMI_RANK", "0"}, {"PMI_SIZE", "14"}, {"MPI_LOCALNRANKS", "14"}}},
      {Starter::kOpenMpi,
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "13"}}},
      {Starter::kTorchrun,
       {{"RANK", "0"},
        {"WORLD_SIZE", "12"},
        {"MASTER_ADDR", "a"},
        {"MASTER_PORT", "1"}}},
      {Starter::kLockstep,
       {{"LOCKSTEP_RANK", "0"}, {"LOCKSTEP_WORLD_SIZE", "11"}}},
  };
  // From the last to the first: each hides those before it here.
  for (size_t i = 0; i < families.size(); ++i) {
    set(families[i].second);
    EXPECT_EQ(read_place().starter, families[i].first);
    EXPECT_EQ(read_place().size, 15 - static_cast<int>(i));
  }
}

TEST_F(PlaceTest, NamesTheMissingHalf) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE"},
      {"RANK", "WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
  };
  for (const auto& [rank, size] : pairs) {
    env_.set(rank, "0");
    EXPECT_THAT(complaint(), HasSubstr(rank + " is set but " + size));
    env_.clear(rank);
    env_.set(size, "1");
    EXPECT_THAT(complaint(), HasSubstr(size + " is set but " + rank));
    env_.clear(size);
  }
  env_.set("SLURM_STEP_ID", "0");
  env_.set("SLURM_PROCID", "0");
  EXPECT_THAT(complaint(), HasSubstr("SLURM_PROCID is set but SLURM_"));
}

TEST_F(PlaceTest, ComplainsOfHalfASetThoughAnotherIsWhole) {
  set({{"LOCKSTEP_RANK", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_THAT(complaint(), HasSubstr("LOCKSTEP_WORLD_SIZE"));
}

TEST_F(PlaceTest, TakesAnEmptyVariableForNone) {
  set({{"RANK", ""}, {"WORLD_SIZE", ""}});
  EXPECT_EQ(read_place().starter, Starter::kNobody);
}

TEST_F(PlaceTest, WantsTheRankBelowTheSize) {
  set({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(complaint(), AllOf(HasSubstr("rank 4"), HasSubstr("size of 4"),
                                 HasSubstr("Open MPI")));
  env_.set("OMPI_COMM_WORLD_SIZE", "0");
  EXPECT_THAT(complaint(), HasSubstr("size of 0"));
}

TEST_F(PlaceTest, WantsWholeNumbers) {
  for (const char* bad : {"one", "1x", "1.5", " 1", "0x1"}) {
    set({{"PMI_RANK", bad}, {"PMI_SIZE", "2"}});
    EXPECT_THAT(complaint(), AllOf(HasSubstr("PMI_RANK"), HasSubstr(bad)));
  }
}

TEST_F(PlaceTest, WantsNumbersInRange) {
  for (const char* bad : {"-1", "4294967296", "99999999999999999999"}) {
    set({{"PMI_RANK", "0"}, {"PMI_SIZE", bad}});
    EXPECT_THAT(complaint(), AllOf(HasSubstr("PMI_SIZE"), HasSubstr(bad)));
  }
}

TEST_F(PlaceTest, NamesTheMissingPartOfTorchrunsMaster) {
  set({{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_THAT(complaint(), HasSubstr("MASTER_ADDR is not"));
  env_.set("MASTER_ADDR", "node1");
  EXPECT_THAT(complaint(), HasSubstr("MASTER_PORT is not"));
  env_.set("MASTER_PORT", "29500");
  EXPECT_NO_THROW(read_place());
}

TEST_F(PlaceTest, NeedsNoMasterForOneRank) {
  set({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(read_place().starter, Starter::kTorchrun);
}

TEST(StarterText, NamesEachAsPeopleDo) {
  EXPECT_STREQ(to_text(Starter::kNobody), "nobody");
  EXPECT_STREQ(to_text(Starter::kLockstep), "lockstep run");
  EXPECT_STREQ(to_text(Starter::kTorchrun), "torchrun");
  EXPECT_STREQ(to_text(Starter::kOpenMpi), "Open MPI");
  EXPECT_STREQ(to_text(Starter::kMpich), "MPICH");
  EXPECT_STREQ(to_text(Starter::kSlurm), "Slurm");
}

TEST(FirstHost, TakesTheFirstNumberAsItIsWritten) {
  EXPECT_EQ(first_host("node[03-05,9],gpu1"), "node03");
  EXPECT_EQ(first_host("node[9,03-05]"), "node9");
  EXPECT_EQ(first_host("node[7]"), "node7");
}

TEST(FirstHost, TakesTheFirstOfAList) {
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("a,node[1-2]"), "a");
  EXPECT_EQ(first_host("single"), "single");
  EXPECT_EQ(first_host("node-1.example.org,b"), "node-1.example.org");
}

TEST(FirstHost, KeepsWhatFollowsTheBracket) {
  EXPECT_EQ(first_host("n[1]-x,n[2]-y"), "n1-x");
  EXPECT_EQ(first_host("n[10-12].example.org"), "n10.example.org");
}

TEST(FirstHost, SurvivesWhatIsNoList) {
  EXPECT_EQ(first_host(""), "");
  EXPECT_EQ(first_host(","), "");
  EXPECT_EQ(first_host("node["), "node");
  EXPECT_EQ(first_host("node[03"), "node");
  EXPECT_EQ(first_host("node[]"), "node");
}

}  // namespace
}  // namespace lockstep::detail

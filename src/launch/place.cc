// SPDX-License-Identifier: Apache-2.0
#include "launch/place.h"

#include <unistd.h>

#include <climits>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// Names of one variable, the first that is set counts.
using Names = std::vector<const char*>;

std::optional<int> number(const Names& names) {
  for (const char* name : names) {
    if (const auto value = env::integer(name)) {
      LOCKSTEP_CHECK(*value >= 0 && *value <= INT_MAX, UsageError,
                     "environment variable {}={} is out of range", name,
                     *value);
      return static_cast<int>(*value);
    }
  }
  return std::nullopt;
}

std::string text(const Names& names) {
  for (const char* name : names) {
    if (auto value = env::text(name)) return *value;
  }
  return "";
}

// The four numbers that every launcher gives, by its own names.
struct Family {
  Starter starter;
  Names rank;
  Names size;
  Names local_rank;
  Names local_size;
  Names node_rank;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {Starter::kLockstep,
       {"LOCKSTEP_RANK"},
       {"LOCKSTEP_WORLD_SIZE"},
       {"LOCKSTEP_LOCAL_RANK", "LOCAL_RANK"},
       {"LOCKSTEP_LOCAL_WORLD_SIZE", "LOCAL_WORLD_SIZE"},
       {"NODE_RANK", "GROUP_RANK"}},
      {Starter::kTorchrun,
       {"RANK"},
       {"WORLD_SIZE"},
       {"LOCAL_RANK"},
       {"LOCAL_WORLD_SIZE"},
       {"GROUP_RANK", "NODE_RANK"}},
      {Starter::kOpenMpi,
       {"OMPI_COMM_WORLD_RANK"},
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       {}},
      {Starter::kMpich,
       {"PMI_RANK"},
       {"PMI_SIZE"},
       {"MPI_LOCALRANKID"},
       {"MPI_LOCALNRANKS"},
       {}},
      {Starter::kSlurm,
       {"SLURM_PROCID"},
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       {"SLURM_LOCALID"},
       {},
       {"SLURM_NODEID"}},
  };
  return all;
}

// Nothing when the family has set nothing; an error when it set half.
std::optional<Place> read_family(const Family& family) {
  const auto rank = number(family.rank);
  const auto size = number(family.size);
  if (!rank && !size) return std::nullopt;
  // Slurm sets both in a batch script too, where nothing has been started yet.
  if (family.starter == Starter::kSlurm &&
      text({"SLURM_STEP_ID", "SLURM_STEPID"}).empty()) {
    return std::nullopt;
  }
  LOCKSTEP_CHECK(rank && size, UsageError,
                 "environment variable {} is set but {} is not; set both, or "
                 "start the program with `lockstep run`",
                 rank ? family.rank[0] : family.size[0],
                 rank ? family.size[0] : family.rank[0]);
  // Slurm's PMI plugin sets MPICH's names, but not where a rank is.
  if (family.starter == Starter::kMpich && env::text("SLURM_PROCID") &&
      !number(family.local_size)) {
    return std::nullopt;
  }
  Place place;
  place.starter = family.starter;
  place.rank = *rank;
  place.size = *size;
  place.local_rank = number(family.local_rank).value_or(0);
  place.local_size = number(family.local_size).value_or(0);
  place.node_rank = number(family.node_rank).value_or(0);
  return place;
}

void read_torchrun(Place& place) {
  place.job_id = text({"TORCHELASTIC_RUN_ID"});
  place.restart_count = number({"TORCHELASTIC_RESTART_COUNT"}).value_or(0);
  place.master_host = text({"MASTER_ADDR"});
  place.master_port = number({"MASTER_PORT"}).value_or(0);
  if (place.size == 1) return;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    LOCKSTEP_CHECK(env::text(name), UsageError,
                   "RANK and WORLD_SIZE are set but {} is not; set it to "
                   "where rank 0 runs, or start the program with `lockstep "
                   "run`",
                   name);
  }
}

// Ranks of one host have one parent: mpirun, its daemon, or a step's.
std::string parent_id() { return fmt::format("parent-{}", ::getppid()); }

void read_mpi(Place& place) {
  place.job_id =
      text({"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "PMI_JOBID"});
  if (place.job_id.empty()) place.job_id = parent_id();
  place.master_host = text({"MASTER_ADDR"});
  place.master_port = number({"MASTER_PORT"}).value_or(0);
}

void read_slurm(Place& place) {
  place.job_id = fmt::format("{}.{}", text({"SLURM_JOB_ID", "SLURM_JOBID"}),
                             text({"SLURM_STEP_ID", "SLURM_STEPID"}));
  const auto nodes = number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  if (nodes == 1) place.local_size = place.size;
  place.restart_count = number({"SLURM_RESTART_COUNT"}).value_or(0);
  place.master_host =
      first_host(text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}));
  // The same for all ranks, another for another job.
  place.master_port =
      20000 + number({"SLURM_JOB_ID", "SLURM_JOBID"}).value_or(0) % 20000;
}

}  // namespace

const char* to_text(Starter starter) {
  switch (starter) {
    case Starter::kNobody:
      return "nobody";
    case Starter::kLockstep:
      return "lockstep run";
    case Starter::kTorchrun:
      return "torchrun";
    case Starter::kOpenMpi:
      return "Open MPI";
    case Starter::kMpich:
      return "MPICH";
    case Starter::kSlurm:
      return "Slurm";
  }
  return "unknown";
}

Place read_place() {
  std::optional<Place> place;
  for (const auto& family : families()) {
    if ((place = read_family(family))) break;
  }
  if (!place) return {};
  // `lockstep run` sets torchrun's names too, and its store on top.
  if (place->starter == Starter::kTorchrun && env::text("LOCKSTEP_STORE")) {
    place->starter = Starter::kLockstep;
  }
  LOCKSTEP_CHECK(place->rank < place->size, UsageError,
                 "rank {} is not below the world size of {} (set by {})",
                 place->rank, place->size, to_text(place->starter));
  switch (place->starter) {
    case Starter::kLockstep:
      place->job_id = text({"LOCKSTEP_RUN_ID"});
      place->restart_count = number({"LOCKSTEP_RESTART_COUNT"}).value_or(0);
      break;
    case Starter::kTorchrun:
      read_torchrun(*place);
      break;
    case Starter::kOpenMpi:
    case Starter::kMpich:
      read_mpi(*place);
      break;
    case Starter::kSlurm:
      read_slurm(*place);
      break;
    case Starter::kNobody:
      break;
  }
  return *place;
}

std::string first_host(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  // prefix[03-05,9]suffix: the first number as it is written.
  const size_t close = list.find(']', end);
  if (close == std::string::npos) return list.substr(0, end);
  const size_t stop = list.find_first_of("-,]", end);
  const size_t suffix_end = list.find_first_of(",[", close);
  const std::string suffix = list.substr(
      close + 1, suffix_end == std::string::npos ? std::string::npos
                                                 : suffix_end - close - 1);
  return list.substr(0, end) + list.substr(end + 1, stop - end - 1) + suffix;
}

}  // namespace lockstep::detail

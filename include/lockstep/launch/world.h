// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/store/store.h"

namespace lockstep {

// What a program may say about its place itself; the rest comes from the
// environment.
struct WorldOptions {
  std::optional<int> rank;
  std::optional<int> size;
  std::shared_ptr<Store> store;
  std::string store_url;  // see store_url.h
  // How long to wait for the store to be there.
  Deadline::Duration timeout = std::chrono::seconds(300);
};

// Who this process is among the ranks of its job, and the store in which it
// meets them.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among those of this host
  int local_size = 1;  // 0: the launcher does not say
  int node_rank = 0;   // which host
  std::string run_id;
  int restart_count = 0;
  std::string started_by;        // "lockstep run", "torchrun", "Open MPI", ...
  std::shared_ptr<Store> store;  // with a prefix of this run's own
};

// Finds it from, in this order: `options`; what `lockstep run` sets, or
// LOCKSTEP_RANK and LOCKSTEP_WORLD_SIZE by hand; torchrun's variables; Open
// MPI's and MPICH's; Slurm's. With none of them it is a world of one.
//
// Where nobody serves a store, rank 0 does: under torchrun at LOCKSTEP_PORT,
// else MASTER_PORT + 1, because torchrun itself listens at MASTER_PORT. Under
// MPI and Slurm on one host the ranks share a file in the user's run-time
// directory instead. Several hosts need a secret, LOCKSTEP_SECRET_FILE.
//
// Errors: UsageError for half a set of variables (it names the missing one), a
//         rank that is not below the size, several hosts without a secret;
//         MismatchError for a process of an earlier round of this job; and
//         what opening the store throws.
World find_world(const WorldOptions& options = {});

}  // namespace lockstep

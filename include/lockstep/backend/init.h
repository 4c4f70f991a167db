// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/store/store.h"

namespace lockstep {

// What init() may be told; the rest comes from the environment.
struct InitOptions {
  // How bytes move: "local" (all ranks are threads of this process), "shm"
  // (they are processes of one host), "gloo" (of any hosts), or "auto" for what
  // LOCKSTEP_BACKEND says (`lockstep run --backend`), and without it the
  // fastest way that reaches all ranks: the ranks find out whether they share a
  // host.
  std::string backend = "auto";
  Deadline::Duration timeout = std::chrono::minutes(10);
  Deadline::Duration notice_after = std::chrono::seconds(10);
  std::string name = "world";
  // Place and meeting point, as in find_world(). They count processes: with
  // several ranks in each, process p has ranks p·R to p·R + R-1.
  std::shared_ptr<Store> store;
  std::string store_url;
  std::optional<int> rank;
  std::optional<int> size;
  // R: how many ranks are threads of this process. More than one is for
  // init_ranks().
  int ranks_in_process = 1;
};

// Joins the job this process was started for, and returns the group of all its
// ranks: started by `lockstep run`, torchrun, mpirun or srun, or alone, which
// is a world of one.
//
//   auto world = lockstep::init();
//
// Errors: those of find_world(); UsageError for a backend that is not there,
//         with those that are.
std::shared_ptr<ProcessGroup> init(const InitOptions& options = {});

// The same for a process with several ranks: one group for each, in the order
// of ranks, to be used by a thread each.
//
//   InitOptions options;
//   options.ranks_in_process = 2;
//   auto worlds = lockstep::init_ranks(options);
std::vector<std::shared_ptr<ProcessGroup>> init_ranks(
    const InitOptions& options);

// The backends built in: "local", "shm" and "gloo".
std::vector<std::string> backend_names();

}  // namespace lockstep

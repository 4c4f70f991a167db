// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/binding.h"
#include "launch/supervisor.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/net/address.h"

namespace lockstep::detail {

// What follows from the options and the machine alone, checked.
struct RunPlan {
  std::string program;  // the path that is started
  int ranks = 0;
  std::vector<Binding> bindings;
  std::string note;    // for the user, or empty
  Address rendezvous;  // port 0 on one host
};

// Errors: UsageError for options that make no sense and for a program that is
//         not there or cannot be started.
RunPlan make_run_plan(const RunOptions& options, const Machine& machine);

// What is known once the launchers have met, and changes with each round.
struct JobFacts {
  int first_rank = 0;
  int world_size = 0;
  int master_port = 0;
  std::string store_url;
  std::string secret;
  std::string launcher_id;  // marks every process that this launcher starts
  std::string run_id;
  int round = 0;
  int columns = 0;  // of the terminal on which ranks print; 0: on none
};

std::vector<RankPlan> rank_plans(const RunOptions& options, const RunPlan& plan,
                                 const JobFacts& job);

// For --dry-run: the command, where it is bound, what is added to its
// environment; secrets are not shown.
std::string describe(const RankPlan& rank, const RunOptions& options,
                     const RunPlan& plan, const JobFacts& job);

}  // namespace lockstep::detail

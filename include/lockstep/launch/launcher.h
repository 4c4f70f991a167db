// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// What `lockstep run` is told; the command line is tools/lockstep/run.cc.
struct RunOptions {
  std::vector<std::string> command;  // the program and its arguments

  int ranks = 0;  // on this host; 0: as many as there are cores
  int nodes = 1;
  int node_rank = 0;
  std::string rendezvous;   // HOST:PORT of the host with node rank 0
  std::string secret_file;  // needed with several hosts

  std::string bind = "core";   // core, numa or none
  std::optional<int> threads;  // OMP_NUM_THREADS; by default its cores
  int max_restarts = 0;
  std::chrono::milliseconds grace{5000};
  std::chrono::seconds timeout{300};  // for all hosts to join

  std::string log_dir;  // a file per rank and round
  bool prefix = true;
  std::string backend;  // handed on as LOCKSTEP_BACKEND
  std::vector<std::pair<std::string, std::string>> environment;
  bool dry_run = false;
};

// Starts the ranks of this host, minds them, and reports the first that fails.
// Returns the exit code: 0 when all ranks return 0, else the first failing
// rank's, or 128 + the signal that ended it.
//
// It takes over SIGINT, SIGTERM and SIGHUP, and forks: call it from main(),
// before any thread is started.
//
// Errors: UsageError, SystemError, TimeoutError before anything has started.
int run(const RunOptions& options);

}  // namespace lockstep

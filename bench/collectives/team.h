// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "child_process.h"
#include "collectives/order.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"

namespace lockstep::bench {

// Who carries out collectives: we, or a rival.
enum class Party { kLockstep, kGloo, kOpenMpi };

const char* to_text(Party party);  // as in the JSON
bool is_present(Party party);      // false: was not found when we were built

// Processes of one party, one per rank, each bound to a core: rank r to core
// r modulo their number. Between two orders they sleep; they end with the team,
// and with this program should it be killed.
//
//   Team team(Party::kGloo, 2, "");
//   const double seconds = team.run({Task::kAllReduce, false, 1024, 100}).mean;
//
// Threads: the main thread.
// Errors:  PeerError with what a worker said, or that one has ended.
class Team {
 public:
  // `backend` is for ours alone.
  Team(Party party, int size, const std::string& backend);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Versions, options and binding, to be printed.
  const std::string& settings() const { return settings_; }

  // Has all ranks carry out `order`, and gives the slowest one's figures.
  Answer run(const Order& order);

 private:
  void start_workers(const std::string& backend);
  void start_mpirun();
  std::string next_answer();

  const Party party_;
  const int size_;
  std::string settings_;
  TcpStoreServer server_;
  TcpStore store_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

}  // namespace lockstep::bench

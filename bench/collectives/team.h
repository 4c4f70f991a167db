// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "child_process.h"
#include "collectives/order.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "support.h"
#include "support/net_lab.h"

namespace lockstep::bench {

// Who carries out collectives: we, or a rival.
enum class Party { kLockstep, kGloo, kOpenMpi, kPyTorch };

const char* to_text(Party party);     // as in the JSON
bool is_present(Party party);         // false: was not found when we were built
std::string absence_of(Party party);  // words about that

// What kind of team, and where.
struct TeamOptions {
  std::string variant = {};                   // as in Place
  std::vector<std::string> environment = {};  // NAME=value
  const testing::NetLab* lab = nullptr;  // rank r on host r; none: all here
  std::string program = {};  // of a rank; empty: the party's for collectives
};

// Processes of one party, one per rank, each bound to a core: rank r to core
// r modulo their number. Between two orders they sleep; they end with the team,
// and with this program should it be killed.
//
//   Team team(Party::kGloo, 2, {});
//   const double seconds = team.run({Task::kAllReduce, false, 1024, 100}).mean;
//
// Threads: the main thread.
// Errors:  PeerError with what a worker said, or that one has ended.
class Team {
 public:
  Team(Party party, int size, TeamOptions options);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Versions, options and binding, to be printed.
  const std::string& settings() const { return settings_; }

  // Has all ranks carry out `order`, and gives the slowest one's figures.
  Answer run(const Order& order);
  // The same for orders in other words: what the ranks answer, in any order.
  std::vector<std::string> ask(const std::string& order);

 private:
  std::vector<std::string> arguments_of(int rank) const;
  void start_workers();
  void start_mpirun();
  std::string next_answer();

  const Party party_;
  const int size_;
  const TeamOptions options_;
  const std::string address_;
  std::string settings_;
  // Only while we start: the store is on the host of rank 0.
  std::unique_ptr<testing::NetLab::Visit> visit_;
  TcpStoreServer server_;
  TcpStore store_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

// An order as a Measure: by the seconds per operation, with as many operations
// as fill `seconds` but no fewer than kFewestTimes.
constexpr int kFewestTimes = 3;
int fitting_times(Team& team, Order order, double seconds);
Measure measure_of(Team& team, Order order, double seconds);

}  // namespace lockstep::bench

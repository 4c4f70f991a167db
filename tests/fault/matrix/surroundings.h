// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fault/matrix/table.h"
#include "lockstep/base/thread.h"
#include "lockstep/net/socket.h"
#include "support/net_lab.h"
#include "support/rank_job.h"

namespace lockstep::faults {

// What is around the ranks of a cell, where its fault comes from there: a store
// in a process of its own, a network of hosts, strangers who connect.
class Surroundings {
 public:
  // Makes what `fault` needs, for so many ranks.
  Surroundings(Fault fault, int ranks);
  ~Surroundings();
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  // Whether there is a network between the ranks, a host for each.
  static bool needs_lab(Fault fault);
  // Whether strangers come.
  static bool is_visited(Fault fault);

  // Has the ranks started there.
  void enter_into(testing::RankJobPlan& plan) const;

  // Lets it happen: to the link of `rank`, or to all of `processes`. Strangers
  // keep coming, to each port once.
  void strike(int rank, const std::vector<pid_t>& processes);
  // Ends what can be ended: a cut link, the coming of strangers.
  // Errors: UsageError when there was no port to which they could come.
  void mend(int rank);

 private:
  void visit(pid_t process);

  const Fault fault_;
  std::unique_ptr<testing::NetLab> lab_;
  std::unique_ptr<testing::Child> store_;
  std::string store_address_;
  // The thread's own until it has ended.
  std::map<std::string, Socket> strangers_;  // by the address they went to
  std::atomic<bool> done_{false};
  Thread sender_;
};

}  // namespace lockstep::faults

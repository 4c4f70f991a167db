// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "fault/matrix/table.h"
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

  // Whether there is a network between the ranks, a host for each.
  static bool needs_lab(Fault fault);

  // Has the ranks started there.
  void enter_into(testing::RankJobPlan& plan) const;

  // Lets it happen: to the link of `rank`, or to all of `processes`. Strangers
  // stay.
  void strike(int rank, const std::vector<pid_t>& processes);
  // Ends what can be ended: a cut link.
  void mend(int rank);

 private:
  void send_strangers(const std::vector<pid_t>& processes);

  const Fault fault_;
  std::unique_ptr<testing::NetLab> lab_;
  std::unique_ptr<testing::Child> store_;
  std::string store_address_;
  std::vector<Socket> strangers_;
};

}  // namespace lockstep::faults

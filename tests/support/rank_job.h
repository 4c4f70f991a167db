// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/store/tcp_store_server.h"
#include "support/child.h"
#include "support/ending.h"

namespace lockstep::testing {

// What a RankJob starts.
struct RankJobPlan {
  int size = 1;
  std::string how;  // as the head of rank_worker.cc has it
  std::string argument = "0";
  std::string backend = "shm";
  // HOST:PORT of a store that somebody else serves; else the job has one.
  std::string store;
  // The command line with which a rank is started where it belongs, made from
  // the one that would start it here.
  std::function<std::vector<std::string>(int rank, std::vector<std::string>)>
      place = nullptr;
};

// A job of so many rank_worker processes, and the store in which they meet. All
// of them are killed and collected when this ends.
//
//   RankJob job(4, "play", 17);
//   ASSERT_TRUE(job.wait_for_all("ready"));
//   job.rank(2).signal(SIGKILL);
//   EXPECT_EQ(job.ending(0).peer, 2);
class RankJob {
 public:
  explicit RankJob(const RankJobPlan& plan);
  // On backend shm.
  RankJob(int size, const std::string& how, uint64_t argument = 0);

  int size() const { return static_cast<int>(ranks_.size()); }
  Child& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  uint16_t port() const { return server_->port(); }

  // Reads the output of a rank, of all ranks, until a line says this.
  bool wait_for(int rank, const std::string& line);
  bool wait_for_all(const std::string& line);

  // Reads on until it says how it ended.
  Ending ending(int rank);

  // What all processes of such jobs have in their environment.
  static std::string mark();

 private:
  std::optional<TcpStoreServer> server_;
  std::vector<std::unique_ptr<Child>> ranks_;
};

// The seed of this run: LOCKSTEP_SEED, or another one each time. It is printed.
uint32_t announced_seed();

}  // namespace lockstep::testing

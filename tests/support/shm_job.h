// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/store/hash_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/child.h"

namespace lockstep::testing {

// How a rank of shm_worker ended, as it says itself.
struct ShmEnding {
  std::string kind;  // "peer error", "timeout", ...; "done", or "" for silence
  int peer = -1;     // the rank the error is about
  Deadline::Clock::time_point when;
  std::string text;
};

// A job of so many shm_worker processes, and the store in which they meet. All
// of them are killed and collected when this ends.
//
//   ShmJob job(4, "play", 17);
//   ASSERT_TRUE(job.wait_for_all("ready"));
//   job.rank(2).signal(SIGKILL);
//   EXPECT_EQ(job.ending(0).peer, 2);
class ShmJob {
 public:
  ShmJob(int size, const std::string& how, uint64_t argument = 0);

  int size() const { return static_cast<int>(ranks_.size()); }
  Child& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  uint16_t port() const { return server_.port(); }

  // Reads the output of a rank, of all ranks, until a line says this.
  bool wait_for(int rank, const std::string& line);
  bool wait_for_all(const std::string& line);

  // Reads on until it says how it ended.
  ShmEnding ending(int rank);

  // What all processes of such jobs have in their environment.
  static std::string mark();

 private:
  TcpStoreServer server_;
  std::vector<std::unique_ptr<Child>> ranks_;
};

// The seed of this run: LOCKSTEP_SEED, or another one each time. It is printed.
uint32_t announced_seed();

}  // namespace lockstep::testing

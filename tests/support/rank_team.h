// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::testing {

using Groups = std::vector<std::shared_ptr<ProcessGroup>>;

// One way to make groups: what the contract of backends is run with.
struct BackendKind {
  std::string name;
  // A group for each rank; null for a rank that another process has.
  std::function<Groups(int size, const GroupOptions& options)> make_groups;
  // Where several processes have the ranks: returns when all of them are here.
  std::function<void()> meet_all = nullptr;
  // And a new store that all of them see; each makes the same calls.
  std::function<std::shared_ptr<Store>()> make_store = nullptr;
};

inline void PrintTo(const BackendKind& kind, std::ostream* out) {
  *out << kind.name;
}

// `factory`, with two minutes for making a group: the timeouts of tests are for
// calls, and ranks may be a while in coming on a busy machine.
BackendFactory patient(BackendFactory factory);

// What the first rank that failed in RankTeam::run threw.
class RankFailure : public std::runtime_error {
 public:
  RankFailure(int rank, const std::string& text)
      : std::runtime_error(text), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// The ranks of one group, a thread each, for as many lambdas as a test likes.
//
//   RankTeam team(kind, 4);
//   team.run([](ProcessGroup& group) { group.barrier()->wait(); });
//
// When a rank throws, its group is aborted, so that the others end too, and
// run() throws a RankFailure that names it. When the ranks are not done in
// time, all groups are aborted and the RankFailure says who hung; should that
// not help, the process ends with the same words.
//
// Where several processes have the ranks, each of them runs the lambda for its
// own only, and run() returns when all processes are done. Such a lambda must
// not expect other ranks to see what it captures.
class RankTeam {
 public:
  using Body = std::function<void(ProcessGroup&)>;

  explicit RankTeam(const BackendKind& kind, int size,
                    const GroupOptions& options = {});
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  int size() const { return static_cast<int>(groups_.size()); }
  // Whether this process has the rank.
  bool is_here(int rank) const { return here_[index(rank)]; }

  // Runs `body` on all ranks and returns when all have ended.
  void run(const Body& body,
           std::chrono::seconds limit = std::chrono::seconds(60));

  // The group of a rank. It may be taken out of the team, and destroyed, by the
  // body on that rank; the team runs nothing after that.
  ProcessGroup& group(int rank) { return *groups_[index(rank)]; }
  std::shared_ptr<ProcessGroup> take_group(int rank) {
    return std::move(groups_[index(rank)]);
  }

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  void serve(int rank);
  void abort_all(const std::string& reason);
  std::string still_running() const;

  Groups groups_;
  const std::vector<bool> here_;
  const std::function<void()> meet_all_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const Body* body_ LOCKSTEP_GUARDED_BY(mutex_) = nullptr;
  uint64_t round_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> done_ LOCKSTEP_GUARDED_BY(mutex_);  // rounds, by rank
  std::unique_ptr<RankFailure> failure_ LOCKSTEP_GUARDED_BY(mutex_);
  bool closing_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::vector<Thread> ranks_;
};

// A team for one lambda.
void run_ranks(const BackendKind& kind, int size, const RankTeam::Body& body,
               const GroupOptions& options = {});

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/thread.h"
#include "lockstep/store/store.h"

namespace lockstep {

// The launchers of one job, one per host, as seen from one of them. They talk
// through the store that node 0 serves: who takes part, whether a round has
// failed, whether there is another.
//
// With one host all of it is answered at once.
//
// Threads: one at a time; a thread of its own watches the others.
class Nodes {
 public:
  Nodes(std::shared_ptr<Store> store, int node_rank, int nodes);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  struct Layout {
    int first_rank = 0;  // of this host
    int world_size = 0;
    std::string run_prefix;  // the job's id, made by node 0
    int master_port = 0;     // a free port on node 0
  };
  // Waits for all hosts. Errors: TimeoutError names the hosts that are missing,
  // MismatchError two launchers with one node rank or different --nnodes.
  Layout join(int ranks, const std::string& run_prefix, int master_port,
              Deadline deadline);

  // Begins round `round` everywhere: node 0 writes its run id into the store,
  // the others wait for that. From then on stop_fd() becomes readable when
  // another host fails or vanishes.
  void begin_round(int round, const std::string& run_id, Deadline deadline);
  int stop_fd() const { return stop_.fd(); }

  // Tells how the round ended here, waits until it has ended everywhere, and
  // says how: the first failure's report and exit code, or nothing.
  struct Verdict {
    std::string report;  // from another host; empty when it was here
    int exit_code = 0;
  };
  Verdict end_round(int round, const std::string& report, int exit_code,
                    Deadline deadline);

  // The last round is over: node 0 serves until the others have heard.
  void leave();

 private:
  void watch(int round);
  void say_failed(int round, const std::string& why, int exit_code);
  std::string key(int round, const std::string& name) const;
  bool is_alone() const { return nodes_ == 1; }

  const std::shared_ptr<Store> store_;
  const int node_rank_;
  const int nodes_;
  EventFd stop_;
  std::atomic<bool> watching_{false};
  Thread watcher_;
};

}  // namespace lockstep

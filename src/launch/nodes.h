// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/thread.h"
#include "lockstep/store/store.h"

namespace lockstep::detail {

// The launchers of one job, one per host, as seen from one of them. They talk
// through the store that node 0 serves: who takes part, whether a round has
// failed, whether there is another.
//
// With one host all of it is answered at once.
//
// Threads: one at a time; a thread of its own watches the others.
// Errors:  AbortedError from join() and begin_round() when `interrupted()`,
// which
//          is asked every few milliseconds, says that a signal has come.
class Nodes {
 public:
  Nodes(std::shared_ptr<Store> store, int node_rank, int nodes,
        std::function<bool()> interrupted);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  // What a launcher brings; the job id and the port count from node 0.
  struct Host {
    int ranks = 0;
    int max_restarts = 0;
    std::string job_id;
    int master_port = 0;  // a free port there
  };
  struct Layout {
    int first_rank = 0;  // of this host
    int world_size = 0;
    std::string job_id;
    int master_port = 0;
  };
  // Waits for all hosts. Errors: TimeoutError names the hosts that are missing;
  // MismatchError two launchers with one node rank, or that disagree on
  // --nnodes or --max-restarts.
  Layout join(const Host& host, Deadline deadline);

  // Begins round `round` everywhere: node 0 writes its run id into the store,
  // the others wait for that. From then on stop_fd() becomes readable when
  // another host fails or vanishes.
  void begin_round(int round, const std::string& run_id, Deadline deadline);
  int stop_fd() const { return stop_.fd(); }

  // How a round ended for the whole job: with the first failure, or well.
  struct Verdict {
    int exit_code = 0;
    std::string report;    // of the failure
    bool is_last = false;  // a host is gone: there can be no other round
  };
  // Tells of a failure; the first one counts. What cannot be told now is left
  // to end_round().
  void say_failed(int round, const Verdict& verdict) noexcept;

  // Tells how the round ended here and waits until it has ended everywhere;
  // once it has failed, for `patience` at most; no longer once interrupted.
  Verdict end_round(int round, const std::string& report, int exit_code,
                    Deadline::Duration patience);

  // The last round is over: node 0 serves until the others have heard.
  void leave();

 private:
  void agree(const std::string& option, int value);
  void watch(int round);
  bool wait_for_failure(int round);
  Verdict read_failure(int round);
  void pause() const;
  static std::string key(int round, const std::string& name);
  bool is_alone() const { return nodes_ == 1; }

  const std::shared_ptr<Store> store_;
  const int node_rank_;
  const int nodes_;
  const std::function<bool()> interrupted_;
  EventFd stop_;
  std::atomic<bool> watching_{false};
  std::atomic<bool> is_host_lost_{false};
  Thread watcher_;
};

}  // namespace lockstep::detail

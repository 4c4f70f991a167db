// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/launcher.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include <fmt/format.h>

#include "launch/binding.h"
#include "launch/guard.h"
#include "launch/nodes.h"
#include "launch/run_plan.h"
#include "launch/signals.h"
#include "launch/supervisor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/secret_file.h"
#include "lockstep/launch/store_url.h"
#include "lockstep/net/listener.h"
#include "lockstep/store/tcp_store_server.h"

namespace lockstep {
namespace detail {

using namespace std::chrono_literals;

namespace {

// Node 0 serves the store: it outlives every rank.
std::shared_ptr<Store> open_job_store(
    const RunOptions& options, const std::string& secret, Address& address,
    const std::function<bool()>& interrupted) {
  StoreUrlOptions url;
  url.secret = secret;
  url.timeout = 5s;
  url.linger = 0s;  // Nodes::leave() has seen to it
  if (options.node_rank == 0) return serve_store(address, url);
  // In slices, so that a signal is heard and the user hears of us.
  url.timeout = 1s;
  const auto deadline = Deadline::in(options.timeout);
  LogLimiter notice(10s);
  for (;;) {
    try {
      return open_store("tcp://" + to_text(address), url);
    } catch (const TimeoutError& error) {
      if (deadline.passed()) throw;
      if (notice.admit()) {
        log_info(fmt::format("waiting for node 0: {}", error.what()));
      }
    }
    if (interrupted()) throw AbortedError("interrupted");
  }
}

int free_port() {
  return Listener(resolve({"0.0.0.0", 0}, Deadline::in(1s)).at(0))
      .address()
      .port();
}

void make_log_dir(const std::string& path) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw SystemError(fmt::format("cannot make the log directory '{}'", path),
                      error.value());
  }
}

// A launcher started without some of its standard streams must not have its
// own descriptors take their numbers.
void hold_standard_streams() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
}

// Then there is one cursor, and one of us has to know where it is.
bool are_one_terminal(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::isatty(a) == 1 && ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

class Launcher {
 public:
  explicit Launcher(const RunOptions& options)
      : options_(options),
        machine_(find_machine()),
        plan_(make_run_plan(options, machine_)),
        id_(make_secret().substr(0, 16)) {}

  int run() {
    if (options_.dry_run) return dry_run();
    if (!plan_.note.empty()) say(plan_.note);
    make_log_dir(options_.log_dir);
    job_.secret = options_.nodes == 1 ? make_secret()
                                      : read_secret_file(options_.secret_file);
    const Guard guard(id_);
    // What a rank's children leave behind becomes ours to reap.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    Signals signals;
    int exit_code = 0;
    try {
      exit_code = run_rounds(signals);
    } catch (const AbortedError&) {
      exit_code = 128 + interrupted_by_;  // before or between rounds
    }
    out_.give_up();
    err_.give_up();
    return exit_code;
  }

 private:
  int run_rounds(Signals& signals) {
    Address address = plan_.rendezvous;
    const auto interrupted = [&] {
      const auto number = signals.next();
      if (number) interrupted_by_ = *number;
      return number.has_value();
    };
    auto store = open_job_store(options_, job_.secret, address, interrupted);
    store->set_timeout(2s);  // a launcher must not wait for a hung node 0
    Nodes nodes(store, options_.node_rank, options_.nodes, interrupted);
    const auto layout =
        nodes.join({plan_.ranks, options_.max_restarts, id_, free_port()},
                   Deadline::in(options_.timeout));
    job_.first_rank = layout.first_rank;
    job_.world_size = layout.world_size;
    job_.master_port = layout.master_port;
    job_.store_url = "tcp://" + to_text(address);
    job_.launcher_id = id_;
    job_.columns = out_.columns();
    for (job_.round = 0;; ++job_.round) {
      job_.run_id = fmt::format("{}.{}", layout.job_id, job_.round);
      const auto verdict = run_one(nodes, signals);
      if (verdict.exit_code == 0 || verdict.is_last || interrupted_by_ != 0 ||
          job_.round == options_.max_restarts) {
        nodes.leave();
        return verdict.exit_code;
      }
      say(fmt::format("starting again: restart {} of {}", job_.round + 1,
                      options_.max_restarts));
    }
  }

  Nodes::Verdict run_one(Nodes& nodes, Signals& signals) {
    nodes.begin_round(job_.round, job_.run_id, Deadline::in(options_.timeout));
    const auto end = run_ranks(nodes, signals);
    std::string report;
    int exit_code = 0;
    if (end.interrupted_by != 0) interrupted_by_ = end.interrupted_by;
    if (end.failure) {
      exit_code = end.failure->ending.exit_code();
      report = to_text(*end.failure);
      say(report);
    } else if (end.interrupted_by != 0) {
      exit_code = 128 + end.interrupted_by;
      report = fmt::format("interrupted by SIG{}\n",
                           ::sigabbrev_np(end.interrupted_by));
    }
    const auto verdict =
        nodes.end_round(job_.round, report, exit_code, options_.grace + 10s);
    if (verdict.exit_code != 0 && verdict.report != report) {
      say(verdict.is_last ? verdict.report
                          : "on another host: " + verdict.report);
    }
    return verdict;
  }

  RoundEnd run_ranks(Nodes& nodes, Signals& signals) {
    const auto tell = [&](const FailedRank& failure) {
      nodes.say_failed(job_.round,
                       {failure.ending.exit_code(), to_text(failure), false});
    };
    try {
      const auto end =
          run_round(rank_plans(options_, plan_, job_), options_.grace, signals,
                    nodes.stop_fd(), out_, err_, tell);
      clean_up();
      return end;
    } catch (...) {
      clean_up();  // a rank could not be started
      throw;
    }
  }

  // Processes that left their rank's group are found by their environment.
  void clean_up() const {
    kill_marked(id_);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }

  int dry_run() {
    job_.world_size = plan_.ranks * options_.nodes;
    job_.first_rank = plan_.ranks * options_.node_rank;
    job_.store_url = options_.nodes == 1
                         ? "tcp://127.0.0.1:(chosen at the start)"
                         : "tcp://" + to_text(plan_.rendezvous);
    job_.run_id = id_ + ".0";
    job_.launcher_id = id_;
    job_.columns = out_.columns();
    for (const auto& rank : rank_plans(options_, plan_, job_)) {
      out_.write(describe(rank, options_, plan_, job_));
    }
    if (!plan_.note.empty()) say(plan_.note);
    return 0;
  }

  void say(const std::string& text) {
    err_.write("lockstep: " + text + (text.back() == '\n' ? "" : "\n"));
  }

  const RunOptions& options_;
  const Machine machine_;
  const RunPlan plan_;
  const std::string id_;  // of this launcher; node 0's is the job's
  JobFacts job_;
  int interrupted_by_ = 0;  // a signal
  Stream out_{STDOUT_FILENO};
  Stream other_err_{STDERR_FILENO};
  Stream& err_ =
      are_one_terminal(STDOUT_FILENO, STDERR_FILENO) ? out_ : other_err_;
};

}  // namespace
}  // namespace detail

int run(const RunOptions& options) {
  detail::hold_standard_streams();
  std::signal(SIGCHLD, SIG_DFL);  // or the system reaps ranks for us
  return detail::Launcher(options).run();
}

}  // namespace lockstep

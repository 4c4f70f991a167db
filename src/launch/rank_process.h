// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::detail {

// How a process ended.
struct Ending {
  int code = 0;    // exit code, when signal is 0
  int signal = 0;  // that ended it, or 0
  bool dumped_core = false;

  bool is_success() const { return code == 0 && signal == 0; }
  // What a shell would report: the exit code, or 128 + signal.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

// "exited with code 3", "killed by SIGKILL".
std::string to_text(const Ending& ending);

struct RankCommand {
  std::string program;                   // its path
  std::vector<std::string> arguments;    // [0] is what it is called
  std::vector<std::string> environment;  // all of it, as NAME=value
  std::vector<int> cpus;                 // empty: not bound
};

// One rank: a process, the leader of a process group of its own, which dies
// when the launcher dies. Its standard input is empty.
//
// Threads: one at a time; start it from the thread that lives longest, because
//          the system ties a child's life to the thread that started it.
class RankProcess {
 public:
  // Errors: SystemError names the program that cannot be started.
  explicit RankProcess(const RankCommand& command);
  ~RankProcess();
  RankProcess(RankProcess&&) = default;
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int handle() const { return handle_.get(); }
  Fd take_out() { return std::move(out_); }
  Fd take_err() { return std::move(err_); }

  // To all of its process group.
  void signal(int number) const;

  // How it ended, when it has. Whatever is left of its group is killed first,
  // while the number cannot have gone to somebody else.
  std::optional<Ending> reap();

 private:
  pid_t pid_ = -1;
  Fd handle_;
  Fd out_;
  Fd err_;
  std::optional<Ending> ending_;
};

}  // namespace lockstep::detail

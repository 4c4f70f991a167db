// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::bench {

// A program that runs beside the benchmark and never outlives it: the
// destructor ends it, and the kernel does when the benchmark itself is killed.
//
//   ChildProcess server({"/proc/self/exe", "--serve"});
//   const std::string port = server.read_line(Deadline::in(10s));
//
// Its input is empty or comes from here, its output comes here, its errors go
// where ours go.
//
// Threads: one at a time. The child lives as long as the thread that starts
//          it, so start it from main().
// Errors:  SystemError with ENOENT when there is no such program.
class ChildProcess {
 public:
  struct Options {
    std::string directory;    // where it runs; empty: here
    bool keep_output = true;  // false: for a program that is never read from
    bool give_input = false;  // for one that is written to
    // For a program with files or processes of its own to clean up, which
    // ends soon after we do whatever happens: it is asked to end, and killed
    // only if it takes too long.
    bool ends_by_itself = false;
  };

  explicit ChildProcess(const std::vector<std::string>& arguments)
      : ChildProcess(arguments, Options()) {}
  ChildProcess(const std::vector<std::string>& arguments,
               const Options& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool is_running();

  // Waits for it to end by itself; false when the deadline passed first.
  bool wait(Deadline deadline);

  // The next line it prints, without its end. Errors: TimeoutError, and
  // PeerError when it ended first.
  std::string read_line(Deadline deadline);
  // Gives it a line to read. Errors: SystemError when it has ended.
  void write_line(const std::string& line);

 private:
  pid_t pid_ = -1;  // -1 once it was collected
  bool ends_by_itself_ = false;
  Fd output_;
  Fd input_;
};

// A fresh directory, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep::bench

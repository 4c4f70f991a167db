// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

// What the tests of the launch layer share.
namespace lockstep::testing {

// While it lives, this process has none of the variables by which a launcher
// tells a rank its place, but those a test sets. The end puts all back.
//
// Threads: set() only while nobody else reads the environment.
class CleanEnvironment {
 public:
  CleanEnvironment();
  ~CleanEnvironment();
  CleanEnvironment(const CleanEnvironment&) = delete;
  CleanEnvironment& operator=(const CleanEnvironment&) = delete;

  void set(const std::string& name, const std::string& value);
  void clear(const std::string& name);

 private:
  void remember(const std::string& name);
  std::map<std::string, std::optional<std::string>> before_;
};

// For what is about to happen, even on a busy machine.
inline Deadline soon() { return Deadline::in(std::chrono::seconds(30)); }

struct TestPipe {
  TestPipe();
  Fd read_end;
  Fd write_end;
};

// What comes until the last writer is gone, or the deadline passes.
std::string read_to_end(int fd, Deadline deadline);

// The next line, byte by byte, so that nothing behind it is taken.
std::string read_line(int fd, Deadline deadline);

bool is_readable(int fd, Deadline deadline);

// Whether the process runs: one that nobody has waited for does not.
bool is_alive(pid_t pid);

// Sends SIGPIPE nowhere while it lives.
class SigpipeIgnored {
 public:
  SigpipeIgnored();
  ~SigpipeIgnored();
  SigpipeIgnored(const SigpipeIgnored&) = delete;
  SigpipeIgnored& operator=(const SigpipeIgnored&) = delete;

 private:
  void (*before_)(int);
};

}  // namespace lockstep::testing

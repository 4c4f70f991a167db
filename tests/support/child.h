// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::testing {

// A process that a test starts: what it prints, on request errors too, is read
// line by line; on request it can be told lines, too. It is killed and waited
// for when this ends.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments,
                 bool with_errors = false, bool with_input = false);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  // The next line, without its end; nothing at the end of the output or when
  // the deadline passed.
  std::optional<std::string> read_line(Deadline deadline);
  // All lines to the end of the output.
  std::vector<std::string> read_all(Deadline deadline);

  // What its standard input gets; nothing when it has ended.
  void write_line(const std::string& line) const;

  void signal(int number) const;
  // Stops it, and returns when it stands.
  void stop() const;
  // Waits for its end; the status as waitpid(2) gives it.
  int wait();

 private:
  pid_t pid_ = -1;
  Fd output_;
  Fd input_;
  std::string buffered_;
  std::optional<int> status_;
};

}  // namespace lockstep::testing

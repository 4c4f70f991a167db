// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fault/matrix/table.h"
#include "lockstep/comm/process_group.h"

namespace lockstep::faults {

// What the ranks of one cell have to know about it.
struct Part {
  Fault fault = Fault::kKill;
  Moment moment = Moment::kIdle;
  int culprit = 0;                // the rank of the fault
  Deadline::Duration patience{};  // of the call that meets it
  size_t count = 1;               // elements of what mistakes are made with

  // As one word on a command line, and back.
  std::string encode() const;
  static Part decode(const std::string& text);
};

// How a rank and the director of the test talk.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual void say(const std::string& line) = 0;
  // Waits for the director to say this.
  virtual void await(const std::string& cue) = 0;
  // Whether the director has said anything since; does not wait.
  virtual bool has_cue() = 0;
};

// Joins the group of the job, in this time at most.
using Join =
    std::function<std::shared_ptr<ProcessGroup>(Deadline::Duration timeout)>;

// What one rank does in a cell, whether it is a process or a thread:
//
//   says "here"; on "join" makes the group; says "ready"
//   is idle, in a collective or in messages with the culprit, and says so;
//     the culprit, on "now", makes its mistake and says "aborted" or "left"
//   says how that ended, as support/ending.h has it
//   on "again" computes a sum with all others, and says how that ended
//   when the store is gone, tries on "duplicate" to make another group, and
//     computes again
//   on "leave" leaves
//
// A rank that is idle makes its call on "call"; those that go round in sums or
// messages end when one of them hears "enough": rank 0 or, for messages, the
// culprit.
void play(const Part& part, int rank, Stage& stage, const Join& join);

}  // namespace lockstep::faults

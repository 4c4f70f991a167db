// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/collective_case.h"

namespace lockstep {

// One thing that all ranks do, or some of them.
struct ProgramStep {
  enum Kind {
    kCollective,
    kBarrier,
    kMessage,  // from one rank of the group to another
    kPost,     // a local step that looks at what came before it
    kDrain,    // each rank waits for all it has launched
  };

  Kind kind = kCollective;
  size_t group = 0;  // which of Program::groups
  testing::CollectiveCase one;
  bool sync = false;
  // Of a message, as ranks of the group.
  int from = 0;
  int to = 0;
  int64_t tag = 0;
  bool any_source = false;
};

// What one rank does at one step instead of what it should.
struct ProgramFault {
  enum Kind {
    kWrongCall,  // calls `wrong` instead
    kSkip,       // does not make the call
    kExtra,      // makes a call before it that nobody else makes
    kDie,        // ends, and its groups with it
    kAbort,      // aborts the group of the step, and ends
  };

  Kind kind = kWrongCall;
  int rank = 0;
  size_t step = 0;
  testing::CollectiveCase wrong;
};

// A program for a number of ranks, all of it drawn from one seed: the groups
// (the world, copies and parts of it, copies and parts of those), then steps
// on them. In some programs one rank goes wrong.
struct Program {
  struct Group {
    size_t parent = 0;
    bool duplicate = false;
    int colors = 1;            // split: color is the parent's rank modulo this
    bool turned = false;       // ranks in reverse order
    bool leave_first = false;  // rank 0 of the parent is in no group
  };

  explicit Program(uint32_t seed);

  uint32_t seed;
  int ranks;
  std::vector<Group> groups;  // the first is the world
  std::vector<ProgramStep> steps;
  std::optional<ProgramFault> fault;
  // For each group and world rank: the world ranks in its group, in order; a
  // rank that is in none has an empty list.
  std::vector<std::vector<std::vector<int>>> members;
};

std::string describe(const Program& program);

}  // namespace lockstep

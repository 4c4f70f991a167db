// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

enum class BindPolicy {
  kCore,  // each rank has cores of its own
  kNuma,  // each rank may use all cores of one memory node
  kNone,  // ranks run wherever the system puts them
};

// What --bind says: core, numa or none. Errors: UsageError.
BindPolicy bind_policy_of(const std::string& word);

// The cores this process may use, in the order of their memory nodes.
struct Machine {
  struct Core {
    int numa = 0;
    std::vector<int> cpus;  // hardware threads, as the system numbers them
  };
  std::vector<Core> cores;
};

// Looks at the machine (hwloc); cgroups and affinity masks are respected.
// Errors: SystemError.
Machine find_machine();

// Where one rank runs and how many threads it should use.
struct Binding {
  std::vector<int> cpus;  // empty: not bound
  int threads = 1;
};

struct BindingPlan {
  std::vector<Binding> ranks;
  std::string note;  // what the user should know, or empty
};

// Gives `ranks` ranks their shares. More ranks than cores are not bound and
// get one thread each. `threads` overrides the number of threads.
BindingPlan plan_binding(const Machine& machine, int ranks, BindPolicy policy,
                         std::optional<int> threads);

// "0-3,8": the way the system's tools write a set of cpus.
std::string to_text(const std::vector<int>& cpus);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/describe_machine.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "launch/binding.h"

namespace lockstep {

std::string describe_machine() {
  const auto machine = detail::find_machine();
  const int cores = static_cast<int>(machine.cores.size());
  std::set<int> nodes;
  std::vector<int> cpus;
  for (const auto& core : machine.cores) {
    nodes.insert(core.numa);
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  std::string text = fmt::format(
      "cores:          {} (cpu {}) on {} memory node{}\n", cores,
      detail::to_text(cpus), nodes.size(), nodes.size() == 1 ? "" : "s");
  constexpr int kMostShown = 8;
  const auto plan = detail::plan_binding(
      machine, cores, detail::BindPolicy::kCore, std::nullopt);
  for (int rank = 0; rank < std::min(cores, kMostShown); ++rank) {
    text += fmt::format("  -n auto:      rank {} on cpu {}, {} thread{}\n",
                        rank, detail::to_text(plan.ranks[rank].cpus),
                        plan.ranks[rank].threads,
                        plan.ranks[rank].threads == 1 ? "" : "s");
  }
  if (cores > kMostShown) {
    text += fmt::format("                and so on for {} more\n",
                        cores - kMostShown);
  }
  return text;
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/rank_cpus.h"

#include "launch/binding.h"

namespace lockstep {

std::vector<std::vector<int>> rank_cpus(int ranks, const std::string& bind) {
  const auto machine = detail::find_machine();
  if (ranks == 0) ranks = static_cast<int>(machine.cores.size());
  const auto plan = detail::plan_binding(
      machine, ranks, detail::bind_policy_of(bind), std::nullopt);
  std::vector<std::vector<int>> cpus;
  for (const auto& rank : plan.ranks) cpus.push_back(rank.cpus);
  return cpus;
}

}  // namespace lockstep

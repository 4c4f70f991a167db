// SPDX-License-Identifier: Apache-2.0
#include "launch/binding.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const {
    ::hwloc_topology_destroy(topology);
  }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) {
    throw SystemError("cannot look at the cores of this machine", errno);
  }
  Topology topology(raw);
  if (::hwloc_topology_load(topology.get()) != 0) {
    throw SystemError("cannot look at the cores of this machine", errno);
  }
  return topology;
}

// Which cpus the affinity mask of this process allows. Sized for machines
// beyond the 1024 cpus of a plain cpu_set_t.
std::vector<bool> allowed_cpus() {
  constexpr int kMostCpus = 1 << 16;
  cpu_set_t* set = CPU_ALLOC(kMostCpus);
  const size_t size = CPU_ALLOC_SIZE(kMostCpus);
  CPU_ZERO_S(size, set);
  const int status = ::sched_getaffinity(0, size, set);
  std::vector<bool> allowed(kMostCpus, status != 0);
  for (int cpu = 0; status == 0 && cpu < kMostCpus; ++cpu) {
    allowed[cpu] = CPU_ISSET_S(cpu, size, set);
  }
  CPU_FREE(set);
  return allowed;
}

// The cores [begin, end) as one rank's share.
Binding share_of(const Machine& machine, size_t begin, size_t end) {
  Binding binding;
  binding.threads = static_cast<int>(end - begin);
  for (size_t i = begin; i < end; ++i) {
    const auto& cpus = machine.cores[i].cpus;
    binding.cpus.insert(binding.cpus.end(), cpus.begin(), cpus.end());
  }
  return binding;
}

// Contiguous blocks of cores, sizes differing by one at most. Cores come in
// the order of memory nodes, so a block crosses nodes only where it must.
void bind_to_cores(const Machine& machine, std::vector<Binding>& ranks) {
  const size_t cores = machine.cores.size();
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = share_of(machine, i * cores / ranks.size(),
                        (i + 1) * cores / ranks.size());
  }
}

// Ranks are dealt to the memory nodes in equal blocks.
void bind_to_nodes(const Machine& machine, std::vector<Binding>& ranks) {
  std::map<int, std::pair<size_t, size_t>> ranges;  // node -> cores
  for (size_t i = 0; i < machine.cores.size(); ++i) {
    auto [range, is_new] = ranges.try_emplace(machine.cores[i].numa, i, i + 1);
    range->second.second = i + 1;
  }
  std::vector<std::pair<size_t, size_t>> nodes;
  for (const auto& [node, range] : ranges) nodes.push_back(range);
  std::vector<size_t> node_of(ranks.size());
  std::vector<int> users(nodes.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    node_of[i] = i * nodes.size() / ranks.size();
    ++users[node_of[i]];
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto [begin, end] = nodes[node_of[i]];
    ranks[i] = share_of(machine, begin, end);
    ranks[i].threads = std::max(1, ranks[i].threads / users[node_of[i]]);
  }
}

}  // namespace

BindPolicy bind_policy_of(const std::string& word) {
  if (word == "core") return BindPolicy::kCore;
  if (word == "numa") return BindPolicy::kNuma;
  if (word == "none") return BindPolicy::kNone;
  throw UsageError(
      fmt::format("--bind knows core, numa and none, not '{}'", word));
}

Machine find_machine() {
  const Topology topology = load_topology();
  const auto allowed = allowed_cpus();
  Machine machine;
  const int cores = ::hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE);
  for (int i = 0; i < cores; ++i) {
    const hwloc_obj_t object =
        ::hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_CORE, i);
    Machine::Core core;
    core.numa = std::max(0, ::hwloc_bitmap_first(object->nodeset));
    int cpu = ::hwloc_bitmap_first(object->cpuset);
    for (; cpu >= 0; cpu = ::hwloc_bitmap_next(object->cpuset, cpu)) {
      if (allowed[cpu]) core.cpus.push_back(cpu);
    }
    if (!core.cpus.empty()) machine.cores.push_back(core);
  }
  // A machine that does not tell its cores still has cpus.
  for (size_t cpu = 0; machine.cores.empty() && cpu < allowed.size(); ++cpu) {
    if (allowed[cpu]) machine.cores.push_back({0, {static_cast<int>(cpu)}});
  }
  std::stable_sort(
      machine.cores.begin(), machine.cores.end(),
      [](const auto& a, const auto& b) { return a.numa < b.numa; });
  return machine;
}

BindingPlan plan_binding(const Machine& machine, int ranks, BindPolicy policy,
                         std::optional<int> threads) {
  BindingPlan plan;
  plan.ranks.resize(static_cast<size_t>(ranks));
  const int cores = static_cast<int>(machine.cores.size());
  if (ranks > cores && policy != BindPolicy::kNone) {
    plan.note = fmt::format(
        "{} ranks on {} core{}: not bound, one thread each; they will take "
        "turns",
        ranks, cores, cores == 1 ? "" : "s");
  } else if (policy == BindPolicy::kCore) {
    bind_to_cores(machine, plan.ranks);
  } else if (policy == BindPolicy::kNuma) {
    bind_to_nodes(machine, plan.ranks);
  } else {
    for (auto& rank : plan.ranks) rank.threads = std::max(1, cores / ranks);
  }
  for (auto& rank : plan.ranks) {
    if (threads) rank.threads = *threads;
    std::sort(rank.cpus.begin(), rank.cpus.end());
  }
  return plan;
}

std::string to_text(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "bench_collective.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::tool {

const std::vector<Collective>& all_collectives() {
  //                                        reduces, root, parts, in place
  static const std::vector<Collective> all = {
      {"all_reduce", OpKind::kAllReduce, true, false, false, true},
      {"broadcast", OpKind::kBroadcast, false, true, false, true},
      {"reduce", OpKind::kReduce, true, true, false, false},
      {"all_gather", OpKind::kAllGather, false, false, true, false},
      {"gather", OpKind::kGather, false, true, true, false},
      {"scatter", OpKind::kScatter, false, true, true, false},
      {"reduce_scatter", OpKind::kReduceScatter, true, false, true, false},
      {"all_to_all", OpKind::kAllToAll, false, false, true, false},
      {"barrier", OpKind::kBarrier, false, false, false, true},
      {"sendrecv", OpKind::kSend, false, false, false, false},
  };
  return all;
}

const Collective& collective_of(const std::string& name) {
  std::string known;
  for (const Collective& one : all_collectives()) {
    if (one.name == name) return one;
    known += known.empty() ? one.name : std::string(", ") + one.name;
  }
  throw UsageError(
      fmt::format("there is no collective '{}'; there are {}", name, known));
}

double bus_factor(const Collective& collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (collective.kind == OpKind::kAllReduce) return 2 * others;
  return collective.has_parts ? others : 1;
}

double moved_factor(const Collective& collective, int ranks) {
  switch (collective.kind) {
    case OpKind::kBroadcast:  // the root's buffer; those of all others
      return ranks;
    case OpKind::kReduce:         // all inputs; the root's output
    case OpKind::kReduceScatter:  // all inputs; an output in parts
    case OpKind::kAllGather:      // an input in parts; all outputs
      return ranks + 1;
    case OpKind::kGather:
    case OpKind::kScatter:  // the root's buffer; the parts
      return 2;
    case OpKind::kBarrier:
      return 0;
    default:  // all inputs, all outputs
      return 2 * ranks;
  }
}

Speed speed_of(const Collective& collective, int ranks, size_t bytes,
               double seconds, double copy_seconds) {
  Speed speed;
  if (bytes == 0 || seconds <= 0) return speed;
  speed.algorithm_gbs = static_cast<double>(bytes) / seconds / 1e9;
  speed.bus_gbs = speed.algorithm_gbs * bus_factor(collective, ranks);
  // A copy by every rank reads and writes 2·ranks times S.
  speed.efficiency =
      moved_factor(collective, ranks) / (2.0 * ranks) * copy_seconds / seconds;
  return speed;
}

}  // namespace lockstep::tool

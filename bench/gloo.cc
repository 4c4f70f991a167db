// SPDX-License-Identifier: Apache-2.0
// Our backend gloo against others who have Gloo carry their bytes: an
// all_reduce between two ranks. Seconds per operation, as the slowest rank
// sees it; less is better.
//
//   host   both ranks on this host, over loopback
//   link   each on a host of its own, over a link of 1 Gbit/s
//
//   gloo         Gloo itself by its C++ API, with the algorithm it takes when
//                not told otherwise
//   gloo-bcube   the same with bcube, small sizes
//   pytorch      PyTorch's ProcessGroupGloo, from Python
//   ours-NAME    our backend when LOCKSTEP_GLOO_ALGORITHM is NAME (--sweep)
#include <algorithm>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "collectives/team.h"
#include "support.h"

namespace lockstep::bench {
namespace {

using testing::NetLab;

constexpr int kRanks = 2;
constexpr int kMegabits = 1000;
constexpr double kMeasureTime = 0.02;  // seconds, for one measure
constexpr size_t kKilo = 1024;
constexpr size_t kMega = kKilo * kKilo;
constexpr size_t kSmall = 64 * kKilo;  // the largest of the small sizes
constexpr size_t kSizes[] = {64, kKilo, 16 * kKilo, kSmall, kMega, 25 * kMega};

struct Choice {
  std::string only;   // a part of the names of cases or rivals to run
  std::string sweep;  // algorithms, with commas between them
  std::string backend = "gloo";

  bool wants(const std::string& place, const std::string& rival) const {
    return place.find(only) != std::string::npos ||
           rival.find(only) != std::string::npos;
  }
};

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

struct Rival {
  std::string name;
  Party party;
  TeamOptions team;
  size_t most_bytes;
};

std::vector<Rival> rivals_for(const Choice& choice) {
  std::vector<Rival> rivals = {
      {"gloo", Party::kGloo, {}, kNoLimit},
      {"gloo-bcube", Party::kGloo, {"bcube"}, kSmall},
      {"pytorch", Party::kPyTorch, {}, kNoLimit},
  };
  std::istringstream algorithms(choice.sweep);
  for (std::string name; std::getline(algorithms, name, ',');) {
    const TeamOptions team = {choice.backend,
                              {"LOCKSTEP_GLOO_ALGORITHM=" + name}};
    rivals.push_back({"ours-" + name, Party::kLockstep, team, kNoLimit});
  }
  return rivals;
}

// Those that are there and asked for.
std::vector<Rival> wanted_at(const std::string& place, const Choice& choice) {
  auto rivals = rivals_for(choice);
  const auto unwanted = [&](const Rival& rival) {
    return !is_present(rival.party) || !choice.wants(place, rival.name);
  };
  rivals.erase(std::remove_if(rivals.begin(), rivals.end(), unwanted),
               rivals.end());
  return rivals;
}

// What the ratio should reach; 0: nothing was said about it.
double goal_for(const std::string& rival, size_t bytes) {
  if (rival == "pytorch") return 1;
  if (rival != "gloo") return 0;
  if (bytes <= kSmall) return 1;
  return bytes <= kMega ? 0.9 : 0.95;
}

void run_place(const std::string& place, const NetLab* lab,
               const Choice& choice, Report& report) {
  const auto rivals = wanted_at(place, choice);
  if (rivals.empty()) return;
  const auto make_team = [&](const std::string& name, Party party,
                             TeamOptions options) {
    options.lab = lab;
    auto team = std::make_unique<Team>(party, kRanks, options);
    report.note(fmt::format("{}, {}: {}", place, name, team->settings()));
    return team;
  };
  const auto mine = make_team("ours", Party::kLockstep, {choice.backend});
  for (const Rival& rival : rivals) {
    const auto theirs = make_team(rival.name, rival.party, rival.team);
    for (const size_t bytes : kSizes) {
      if (bytes > rival.most_bytes) continue;
      const Order order = {Task::kAllReduce, false, bytes};
      const auto result = compare(report.rounds(), Better::kLess,
                                  measure_of(*mine, order, kMeasureTime),
                                  measure_of(*theirs, order, kMeasureTime));
      report.add({place, rival.name, bytes, kRanks, result,
                  collective_of(order.task), goal_for(rival.name, bytes)});
    }
  }
}

void run_gloo(const Choice& choice, Report& report) {
  report.note(fmt::format(
      "seconds per operation on float32, sums, in place; {} rounds of 2 x {} "
      "ms each; rank r on core r",
      report.rounds(), kMeasureTime * 1000));
  for (const Party party : {Party::kGloo, Party::kPyTorch}) {
    if (is_present(party)) continue;
    report.note(absence_of(party));
  }
  run_place("host", nullptr, choice, report);
  if (wanted_at("link", choice).empty()) return;
  if (const auto reason = NetLab::why_not(); !reason.empty()) {
    report.note("link is ABSENT: there can be no hosts here: " + reason);
    return;
  }
  NetLab lab(kRanks);
  for (int host = 0; host < kRanks; ++host) lab.limit(host, kMegabits);
  report.note(fmt::format(
      "link: network namespaces joined by a bridge, {} Mbit/s in each "
      "direction (tbf)",
      kMegabits));
  run_place("link", &lab, choice, report);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  namespace bench = lockstep::bench;
  bench::Choice choice;
  return bench::run(
      "gloo", argc, argv,
      [&](bench::Report& report) { bench::run_gloo(choice, report); },
      {{"--only", "Cases or rivals with this in their name", &choice.only},
       {"--sweep", "Compare with these algorithms of ours: ring,bcube",
        &choice.sweep},
       {"--backend", "Ours; gloo by default", &choice.backend}});
}

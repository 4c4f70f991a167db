// SPDX-License-Identifier: Apache-2.0
// Collectives between processes of this host: ours, Gloo's and Open MPI's.
// Seconds per operation, as the slowest rank sees it; less is better.
//
//   registered     in memory of the group's own, where ours needs no copies
//   unregistered   in any memory
//   sync-small     a small all_reduce in any memory, by a synchronous call
//   async-small    the same, launched and waited for; rivals block
//   efficiency     an all_reduce against plain copying, see run_efficiency()
//   p99            of single operations, against their own median
//   compute-kept   a thread that computes while its rank's lane waits
//
// Ranks are processes, each bound to a core; with more ranks than cores, they
// share them evenly.
#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "binding.h"
#include "collectives/team.h"
#include "support.h"

namespace lockstep::bench {
namespace {

constexpr double kMeasureTime = 0.02;  // seconds, for one measure
constexpr size_t kKilo = 1024;
constexpr size_t kMega = kKilo * kKilo;

struct Choice {
  std::string only;  // a part of the names of cases or collectives to run
  std::string backend = "shm";

  bool wants(const std::string& name, Task task) const {
    return name.find(only) != std::string::npos ||
           std::string(collective_of(task)).find(only) != std::string::npos;
  }
};

// The teams of one size, and how each does an order in its own time.
class Field {
 public:
  Field(int ranks, const Choice& choice, Report& report)
      : ranks_(ranks), choice_(choice), report_(report) {
    for (const Party party :
         {Party::kLockstep, Party::kGloo, Party::kOpenMpi}) {
      if (!is_present(party)) continue;
      TeamOptions options;
      if (party == Party::kLockstep) options.variant = choice.backend;
      teams_[party] = std::make_unique<Team>(party, ranks, options);
      report.note(fmt::format("{} ranks, {}: {}", ranks, to_text(party),
                              teams_[party]->settings()));
    }
  }

  // One row for each size and each rival that is there.
  void run(const std::string& name, const Order& order,
           const std::vector<size_t>& sizes, const std::vector<Party>& rivals) {
    for (const Party rival : rivals) {
      if (teams_.count(rival) == 0) continue;
      for (const size_t bytes : sizes) {
        Order sized = order;
        sized.bytes = bytes;
        compare_orders(name, to_text(rival), sized, rival, sized);
      }
    }
  }

  // Ours doing `mine` against `rival` doing `its`.
  void compare_orders(const std::string& name, const std::string& rival_name,
                      const Order& mine, Party rival, const Order& its) {
    if (!choice_.wants(name, mine.task)) return;
    const auto result =
        compare(report_.rounds(), Better::kLess,
                measure(Party::kLockstep, mine), measure(rival, its));
    report_.add({name, rival_name, mine.bytes, ranks_, result,
                 collective_of(mine.task)});
  }

  // In-place efficiency, (2·N·S / t) / B, for S bytes on each of N ranks. B is
  // what the same cores read and write in a second when each copies S bytes at
  // the same time: 2·N·S / t(copy). So the ratio is t(copy) / t.
  void run_efficiency(const std::vector<size_t>& sizes) {
    for (const size_t bytes : sizes) {
      const Order mine = {Task::kAllReduce, true, bytes};
      const Order copy = {Task::kCopy, false, bytes};
      compare_orders("efficiency", "copy", mine, Party::kLockstep, copy);
    }
  }

  // The 99th percentile of single operations against their median: the ratio
  // is median / p99, 0.2 when it is five times the median.
  void run_p99(const std::vector<size_t>& sizes) {
    for (const size_t bytes : sizes) {
      Order order = {Task::kAllReduce, true, bytes};
      if (!choice_.wants("p99", order.task)) continue;
      Team& team = *teams_[Party::kLockstep];
      order.times =
          std::max(kSingles, fitting_times(team, order, kMeasureTime));
      order.single = true;
      std::vector<double> p99, medians, ratios;
      for (int round = 0; round < report_.rounds(); round += 3) {
        const Answer answer = team.run(order);
        p99.push_back(answer.p99);
        medians.push_back(answer.median);
        ratios.push_back(answer.median / answer.p99);
      }
      std::sort(ratios.begin(), ratios.end());
      report_.add({"p99",
                   "median",
                   bytes,
                   ranks_,
                   {median(p99), median(medians),
                    *std::min_element(p99.begin(), p99.end()),
                    *std::min_element(medians.begin(), medians.end()),
                    median(ratios), ratios.front(), ratios.back()},
                   collective_of(order.task)});
    }
  }

 private:
  static constexpr int kSingles = 100;

  Measure measure(Party party, Order order) {
    const bool has_own_time =
        order.task == Task::kCompute || order.task == Task::kComputeBeside;
    Team& team = *teams_[party];
    if (!has_own_time) return measure_of(team, order, kMeasureTime);
    return [&team, order] { return team.run(order).mean; };
  }

  const int ranks_;
  const Choice& choice_;
  Report& report_;
  std::map<Party, std::unique_ptr<Team>> teams_;
};

void run_two_ranks(const Choice& choice, Report& report) {
  const std::vector<Party> both = {Party::kOpenMpi, Party::kGloo};
  const std::vector<size_t> small = {kKilo, 16 * kKilo};
  const std::vector<size_t> large = {64 * kKilo, kMega, 4 * kMega, 25 * kMega,
                                     100 * kMega};
  Field field(2, choice, report);
  field.run("registered", {Task::kAllReduce, true}, large, both);
  field.run("registered", {Task::kAllReduce, true}, small, {Party::kGloo});
  field.run("unregistered", {Task::kAllReduce, false}, {kMega, 25 * kMega},
            both);
  field.run_efficiency({kMega, 25 * kMega, 100 * kMega});
  field.run("sync-small", {Task::kAllReduce, false}, small, both);
  field.run("async-small", {Task::kLaunch, false}, small, both);
  for (const Task task :
       {Task::kBroadcast, Task::kAllGather, Task::kReduceScatter}) {
    field.run("registered", {task, true}, {25 * kMega}, both);
  }
  field.compare_orders("compute-kept", "alone",
                       {Task::kComputeBeside, true, kMega}, Party::kLockstep,
                       {Task::kCompute, true, kMega});
}

void run_crowd(int ranks, const Choice& choice, Report& report) {
  const std::vector<size_t> sizes = {kKilo, kMega, 25 * kMega};
  Field field(ranks, choice, report);
  field.run("registered", {Task::kAllReduce, true}, sizes,
            {Party::kOpenMpi, Party::kGloo});
  field.run_p99(sizes);
}

void run_collectives(const Choice& choice, Report& report) {
  report.note(fmt::format(
      "seconds per operation on float32, sums; {} rounds of 2 x {} ms each; "
      "rank r on core r modulo {}",
      report.rounds(), kMeasureTime * 1000, allowed_cpus().size()));
  for (const Party party : {Party::kGloo, Party::kOpenMpi}) {
    if (is_present(party)) continue;
    report.note(absence_of(party));
  }
  run_two_ranks(choice, report);
  for (const int ranks : {4, 8}) run_crowd(ranks, choice, report);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  namespace bench = lockstep::bench;
  bench::Choice choice;
  return bench::run(
      "collectives", argc, argv,
      [&](bench::Report& report) { bench::run_collectives(choice, report); },
      {{"--only", "Cases or collectives with this in their name", &choice.only},
       {"--backend", "Ours; shm by default", &choice.backend}});
}

// SPDX-License-Identifier: Apache-2.0
// Training steps of two ranks, processes with a core and a thread each: ours
// against PyTorch's DistributedDataParallel and against the same program
// without communication. Seconds per step, as the slowest rank sees it.
//
//   mlp25-batch16, mlp25-batch128, conv, transformer
//                   on one host, backend shm
//   exposed-1gbit   on two hosts; see ddp/exposed.h
//   overlap-batchN  of mlp25: against one bucket that leaves after backward,
//                   and against buckets that do not leave
//   buckets-batchN  of mlp25: against other sizes of buckets than ours
//
//   local           our own program, both ranks at once, no communication
//   pytorch-ddp     PyTorch from Python
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "ddp/exposed.h"
#include "ddp/sides.h"
#include "support.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kMega = 1 << 20;
constexpr size_t kMlpBytes = 25190400;

struct Case {
  std::string name;
  std::string model;
  int64_t batch;
  size_t bytes;              // of all gradients
  double pytorch_goal;       // of the ratio
  double most_overhead = 0;  // over local, a share; 0: nothing was said
};

const Case kCases[] = {
    {"mlp25-batch16", "mlp25", 16, kMlpBytes, 1.8, 0.15},
    {"mlp25-batch128", "mlp25", 128, kMlpBytes, 1.3, 0.05},
    {"conv", "conv", 16, 1285160, 1},
    {"transformer", "transformer", 8, 6318080, 1},
};

// Of processor time, too: what others do on the machine hardly counts there,
// and neither does waiting.
void note_overhead(const std::string& name, const Side& side, const Side& local,
                   const Report& report) {
  report.note(fmt::format("{}: overhead of {} over {} {}, of processor time {}",
                          name, side.text(), local.text(),
                          overhead_text(side, local, &StepTimes::step),
                          overhead_text(side, local, &StepTimes::processor)));
}

// Of a few turns with a trace, which the others are without.
std::string traced_parts_text(const Side& side) {
  constexpr int kTurns = 3;
  std::vector<Side> traced = {side};
  traced[0].rounds.clear();
  traced[0].order.traced = true;
  run_rounds(kTurns, traced);
  return parts_text(traced[0]);
}

void run_case(const std::string& name, const Case& one, const Teams& teams,
              Report& report) {
  auto sides = teams.sides(one.model, one.batch);
  settle_steps(sides);
  const size_t count = sides.size();
  sides = in_both_ways(sides);
  run_rounds(report.rounds(), sides);
  for (const Side& side : sides) report.note(parts_text(side));
  for (size_t i = 0; i < sides.size(); ++i) {  // both in the same way
    const size_t local = 2 + i % 2;
    if (i != local) note_overhead(name, sides[i], sides[local], report);
  }
  sides = in_the_better_way(sides);
  const Side &ours = sides[0], &local = sides[1];
  const double most = one.most_overhead;
  for (size_t i = 1; i < count; ++i) {
    const double local_goal = most > 0 ? 1 / (1 + most) : 0;
    report.add({name, sides[i].name, one.bytes, kDdpRanks,
                compare(Better::kLess, ours.values(), sides[i].values()), "",
                i == 1 ? local_goal : one.pytorch_goal});
  }
  if (most > 0) {
    note_overhead(name, ours, local, report);
    report.note(
        fmt::format("{}: that should be {:.0f} % at most", name, 100 * most));
  }
  report.note("traced: " + traced_parts_text(ours));
}

// Others of our own instead of rivals: `name` in another mode or with other
// buckets.
void run_variants(const std::string& name, int64_t batch, const Teams& teams,
                  const std::vector<Side>& variants, Report& report) {
  auto sides = teams.sides("mlp25", batch);
  sides.resize(2);
  sides.insert(sides.end(), variants.begin(), variants.end());
  settle_steps(sides);
  run_rounds(report.rounds(), sides);
  for (size_t i = 2; i < sides.size(); ++i) {
    report.add({name, sides[i].name, kMlpBytes, kDdpRanks,
                compare(Better::kLess, sides[0].values(), sides[i].values())});
  }
  for (const Side& side : sides) {
    if (side.name != "local") note_overhead(name, side, sides[1], report);
  }
}

void run_overlap(const std::string& name, int64_t batch, const Teams& teams,
                 Report& report) {
  run_variants(
      name, batch, teams,
      {{"after", teams.ours.get(), {"mlp25", batch, "after"}},
       {"noop", teams.ours.get(), {"mlp25", batch, "overlap", 0, "noop"}}},
      report);
  std::vector<Side> alone = {
      {"exchange", teams.ours.get(), {"mlp25", 1, "exchange"}}};
  alone[0].order.steps = 10;
  run_rounds(report.rounds(), alone);
  report.note(fmt::format("{}: buckets alone take {:.2f} ms", name,
                          1e3 * alone[0].median_of(&StepTimes::step)));
}

void run_buckets(const std::string& name, int64_t batch, const Teams& teams,
                 Report& report) {
  std::vector<Side> sizes;
  for (const int64_t mega : {1, 5, 25, 100}) {
    sizes.push_back({fmt::format("{} MiB", mega),
                     teams.ours.get(),
                     {"mlp25", batch, "overlap", mega * kMega}});
  }
  run_variants(name, batch, teams, sizes, report);
}

// What runs on one host, by name.
using Run = std::function<void(const Teams&, Report&)>;
std::vector<std::pair<std::string, Run>> runs_on_one_host() {
  std::vector<std::pair<std::string, Run>> runs;
  const auto add = [&](const std::string& name, auto run, auto what) {
    runs.emplace_back(name, [=](const Teams& teams, Report& report) {
      run(name, what, teams, report);
    });
  };
  for (const Case& one : kCases) add(one.name, run_case, one);
  for (const int64_t batch : {16, 128}) {
    add(fmt::format("overlap-batch{}", batch), run_overlap, batch);
    add(fmt::format("buckets-batch{}", batch), run_buckets, batch);
  }
  return runs;
}

void run_ddp(const std::string& only, Report& report) {
  const auto wants = [&](const std::string& name) {
    return name.find(only) != std::string::npos;
  };
  report.note(fmt::format(
      "seconds per step, SGD, mean squared error; {} rounds; rank r on core r",
      report.rounds()));
  if (!has_pytorch()) report.note(absence_of_pytorch());
  std::unique_ptr<const Teams> teams;
  for (const auto& [name, run] : runs_on_one_host()) {
    if (!wants(name)) continue;
    if (!teams) teams = std::make_unique<Teams>("shm", nullptr, report);
    run(*teams, report);
  }
  teams.reset();
  if (wants(kExposedCase)) run_exposed(report);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  std::string only;
  return lockstep::bench::run(
      "ddp", argc, argv,
      [&](lockstep::bench::Report& report) {
        lockstep::bench::run_ddp(only, report);
      },
      {{"--only", "Cases with this in their name", &only}});
}

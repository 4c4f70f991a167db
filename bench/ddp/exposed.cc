// SPDX-License-Identifier: Apache-2.0
#include "ddp/exposed.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ddp/sides.h"

namespace lockstep::bench {
namespace {

using testing::NetLab;

constexpr int kMegabits = 1000;
constexpr int kLayers = 24;
constexpr int64_t kLayerBytes = 1 << 20;
constexpr const char* kModel = "layers24";
constexpr double kMostExposed = 0.15;  // the goal

Side exchange_of(const Teams& teams) {
  return {"exchange", teams.ours.get(), {kModel, 1, "exchange", kLayerBytes}};
}

// The batch with which backward alone takes as long as all buckets do. It does
// not grow quite in proportion, so the second guess starts from the first.
int64_t balanced_batch(const Teams& teams, const Report& report) {
  constexpr int kGuesses = 3;
  constexpr int kSteps = 3;
  constexpr int64_t kGrain = 8;
  Side exchange = exchange_of(teams);
  exchange.order.steps = kSteps;
  const double wanted = std::min(exchange.run().step, exchange.run().step);
  int64_t batch = 512;
  double backward = 0;
  for (int i = 0; i < kGuesses; ++i) {
    if (i > 0) {
      const double guess = static_cast<double>(batch) * wanted / backward;
      batch = std::max<int64_t>(1, std::lround(guess / kGrain)) * kGrain;
    }
    Side local = {"local", teams.ours.get(), {kModel, batch, "local"}};
    local.order.steps = kSteps;
    backward = std::min(local.run().backward, local.run().backward);
  }
  report.note(fmt::format(
      "{}: {} buckets of {} bytes take {:.1f} ms, backward with a batch of {} "
      "{:.1f} ms",
      kExposedCase, kLayers, kLayerBytes, 1e3 * wanted, batch, 1e3 * backward));
  return batch;
}

// Parts of `a` by those of `b`, by round.
std::vector<double> shares(const std::vector<double>& a,
                           const std::vector<double>& b) {
  std::vector<double> result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i] / b[i]);
  return result;
}

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

void add_shares(const std::vector<double>& exposed, Report& report) {
  const auto add = [&](const char* rival, double value, double goal) {
    const std::vector<double> all(exposed.size(), value);
    report.add({kExposedCase, rival, kLayers * kLayerBytes, kDdpRanks,
                compare(Better::kLess, exposed, all), "", goal});
  };
  add("15 % exposed", kMostExposed, 1);
  add("floor", 1.0 / kLayers, 0);
}

void run_on(const Teams& teams, Report& report) {
  auto sides = teams.sides(kModel, balanced_batch(teams, report), kLayerBytes);
  settle_steps(sides);
  sides[0].order.traced = true;  // some spans in a step of seconds
  sides.push_back(exchange_of(teams));
  sides.back().order.steps = sides[0].order.steps;
  run_rounds(report.rounds(), sides);

  const Side &ours = sides[0], &local = sides[1], &exchange = sides.back();
  const auto communication = exchange.values();
  const auto note_overhead = [&](const Side& side) {
    report.note(fmt::format(
        "{}: overhead of {} over local {}, of communication {}", kExposedCase,
        side.name, overhead_text(side, local, &StepTimes::step),
        percent_text(
            shares(minus(side.values(), local.values()), communication))));
  };
  for (const Side& side : sides) {
    if (side.name == "ours" || side.name == "exchange") continue;
    report.add({kExposedCase, side.name, kLayers * kLayerBytes, kDdpRanks,
                compare(Better::kLess, ours.values(), side.values()), "",
                side.name == "pytorch-ddp" ? 1.0 : 0.0});
    note_overhead(side.name == "local" ? ours : side);
  }
  const auto exposed = shares(ours.values(&StepTimes::wait), communication);
  add_shares(exposed, report);
  report.note(fmt::format(
      "{}: exposed {} on the rank that computes longest, goal at most "
      "{:.0f} %; {} on the other, which waits for that one besides; the last "
      "of {} buckets is {:.1f} %; all of them take {:.1f} ms",
      kExposedCase, percent_text(exposed), 100 * kMostExposed,
      percent_text(
          shares(ours.values(&StepTimes::longest_wait), communication)),
      kLayers, 100.0 / kLayers, 1e3 * median(communication)));
  report.note(parts_text(ours));
  report.note(parts_text(local));
}

}  // namespace

void run_exposed(Report& report) {
  if (const auto reason = NetLab::why_not(); !reason.empty()) {
    report.note(fmt::format("{} is ABSENT: there can be no hosts here: {}",
                            kExposedCase, reason));
    return;
  }
  NetLab lab(kDdpRanks);
  for (int host = 0; host < kDdpRanks; ++host) lab.limit(host, kMegabits);
  report.note(fmt::format(
      "{}: network namespaces joined by a bridge, {} Mbit/s in each direction "
      "(tbf)",
      kExposedCase, kMegabits));
  const Teams teams("gloo", &lab, report);
  run_on(teams, report);
}

}  // namespace lockstep::bench

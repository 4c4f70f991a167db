// SPDX-License-Identifier: Apache-2.0
// Training steps of two ranks with our communication hooks: each hook against
// our plain all_reduce, and against the same hook of PyTorch's. mlp25 (25 MB)
// with a batch of 16, ranks that are processes with a core and a thread each.
// Seconds per step, as the slowest rank sees it.
//
//   100mbit, 1gbit  on two hosts, backend gloo
//   shm             on one host, backend shm
//
//   all_reduce        our own, without compression
//   best-candidate    of auto_compress: the quickest of what it chooses from
//   pytorch-ddp, pytorch-fp16, pytorch-power_sgd
//                     PyTorch from Python over Gloo
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ddp/sides.h"
#include "support.h"

namespace lockstep::bench {
namespace {

using testing::NetLab;

constexpr size_t kGradientBytes = 25190400;
constexpr int kSlowLink = 100;  // Mbit/s
constexpr const char* kPlain = "all_reduce";
constexpr const char* kPyTorchPlain = "pytorch-ddp";
constexpr const char* kBest = "best-candidate";

struct Place {
  std::string name;
  std::string backend;
  int megabits;  // between two hosts; 0: one host
  // Of a turn, with hooks that send much and with those that send little: the
  // same number for hooks that are compared, and on a slow link few.
  int steps;
  int small_steps;
};
const Place kPlaces[] = {{"100mbit", "gloo", kSlowLink, 1, 3},
                         {"1gbit", "gloo", 1000, 2, 2},
                         {"shm", "shm", 0, 4, 4}};

struct Hook {
  std::string text;        // for hooks::make()
  double slow_goal = 0;    // against all_reduce on kSlowLink; 0: none
  std::string rival = {};  // the same hook of PyTorch's, if there is one
  bool sends_much = false;
};
const Hook kPlainHook = {kPlain, 0, kPyTorchPlain, true};
const Hook kHooks[] = {
    {"fp16_compress", 1.7, "pytorch-fp16", true},
    {"bf16_compress", 0, "", true},
    {"quantize:bits=8", 3, "", true},
    {"quantize:bits=4", 5},
    {"sign"},
    {"top_k"},
    {"power_sgd:rank=2,start_iter=2", 12, "pytorch-power_sgd"},
};
const std::vector<std::string> kCandidates = {
    "fp16_compress", "quantize:bits=8", "quantize:bits=4",
    "power_sgd:rank=2,start_iter=2"};
// Its first steps are a trial of all candidates.
const std::string kAuto =
    fmt::format("auto_compress({})", fmt::join(kCandidates, "|"));
constexpr int kTrialSteps = 40;

std::vector<Hook> hooks_for(const std::string& place, const std::string& only) {
  std::vector<Hook> hooks(std::begin(kHooks), std::end(kHooks));
  hooks.push_back({kAuto});
  if (place.find(only) != std::string::npos) return hooks;
  const auto unwanted = [&](const Hook& hook) {
    return hook.text.find(only) == std::string::npos;
  };
  hooks.erase(std::remove_if(hooks.begin(), hooks.end(), unwanted),
              hooks.end());
  return hooks;
}

double goal_for(const Place& place, const Hook& hook,
                const std::string& rival) {
  const bool is_slow = place.megabits == kSlowLink;
  constexpr double kAutoGoal = 0.95;
  if (rival == kBest) return is_slow ? kAutoGoal : 0;
  if (rival == kPyTorchPlain) return 0;
  if (rival != kPlain) return 1;
  if (hook.text == kAuto) return place.megabits == 0 ? kAutoGoal : 0;
  return is_slow ? hook.slow_goal : 0;
}

StepOrder order_for(const Place& place, const Hook& hook) {
  StepOrder order = {"mlp25", 16, "overlap"};
  order.hook = hook.text;
  order.steps = hook.sends_much ? place.steps : place.small_steps;
  return order;
}

// All who train at one place: "all_reduce", "local", our hooks by their texts,
// and PyTorch's, which have a team each, since one may fail.
class Field {
 public:
  Field(Place place, const NetLab* lab, std::vector<Hook> hooks, Report& report)
      : place_(std::move(place)),
        lab_(lab),
        hooks_(std::move(hooks)),
        report_(report),
        ours_(make_our_team(place_.backend, lab)) {
    report_.note(fmt::format("{}, ours: {}", place_.name, ours_->settings()));
    add_ours(kPlain, order_for(place_, kPlainHook));
    StepOrder local = order_for(place_, {kPlain});
    local.mode = "local";
    add_ours("local", local);
    for (const Hook& hook : hooks_) {
      add_ours(hook.text, order_for(place_, hook));
    }
    if (!has_pytorch()) return;
    // On a slow link a plain step takes long, and tells of the link alone.
    if (place_.megabits != kSlowLink) add_pytorch(kPlainHook);
    for (const Hook& hook : hooks_) {
      if (!hook.rival.empty()) add_pytorch(hook);
    }
  }

  void run() {
    run_rounds(report_.rounds(), sides_);
    for (const Hook& hook : hooks_) add_row(hook, kPlain, find(kPlain));
    if (const Side* best = best_candidate(); best != nullptr && find(kAuto)) {
      add_row({kAuto}, kBest, best);
      report_.note(
          fmt::format("{}: the best candidate is {}", place_.name, best->name));
    }
    add_row(kPlainHook, kPyTorchPlain, find(kPyTorchPlain));
    for (const Hook& hook : hooks_) add_row(hook, hook.rival, find(hook.rival));
    for (const Side& side : sides_) {
      report_.note(place_.name + ", " + parts_text(side));
    }
  }

 private:
  void add_ours(const std::string& name, const StepOrder& order) {
    Side side = {name, ours_.get(), order};
    side.order.traced = true;  // some spans in a step
    if (name == kAuto) finish_trial(side);
    sides_.push_back(std::move(side));
  }

  // In orders that are short enough to be waited for.
  static void finish_trial(Side side) {
    constexpr int kOrderSteps = 10;
    side.order.steps = kOrderSteps;
    for (int i = 0; i < kTrialSteps / kOrderSteps; ++i) side.run();
  }

  void add_pytorch(const Hook& hook) {
    try {
      auto team = make_pytorch_team(lab_);
      Side side = {hook.rival, team.get(), order_for(place_, hook)};
      side.run();
      report_.note(
          fmt::format("{}, {}: {}", place_.name, hook.rival, team->settings()));
      sides_.push_back(std::move(side));
      theirs_.push_back(std::move(team));
    } catch (const std::exception& error) {
      report_.note(
          fmt::format("{}: {} is ABSENT, there is no row for it; it failed: {}",
                      place_.name, hook.rival, error.what()));
    }
  }

  // Null when it does not take part.
  const Side* find(const std::string& name) const {
    for (const Side& side : sides_) {
      if (side.name == name) return &side;
    }
    return nullptr;
  }

  // Null when some of them do not take part.
  const Side* best_candidate() const {
    const Side* best = nullptr;
    for (const std::string& name : kCandidates) {
      const Side* const one = find(name);
      if (one == nullptr) return nullptr;
      const auto step = &StepTimes::step;
      if (best == nullptr || one->median_of(step) < best->median_of(step)) {
        best = one;
      }
    }
    return best;
  }

  void add_row(const Hook& hook, const std::string& rival, const Side* theirs) {
    if (theirs == nullptr) return;
    const Side& ours = *find(hook.text);
    Row row = {place_.name, rival, kGradientBytes, kDdpRanks,
               compare(Better::kLess, ours.values(), theirs->values())};
    row.goal = goal_for(place_, hook, rival);
    row.hook = hook.text;
    row.wire_bytes =
        static_cast<size_t>(ours.median_of(&StepTimes::wire_bytes));
    report_.add(row);
  }

  const Place place_;
  const NetLab* const lab_;
  const std::vector<Hook> hooks_;
  Report& report_;
  const std::unique_ptr<Team> ours_;
  std::vector<std::unique_ptr<Team>> theirs_;
  std::vector<Side> sides_;
};

void run_place(const Place& place, const std::string& only, Report& report) {
  const auto hooks = hooks_for(place.name, only);
  if (hooks.empty()) return;
  if (place.megabits == 0) {
    Field(place, nullptr, hooks, report).run();
    return;
  }
  if (const auto reason = NetLab::why_not(); !reason.empty()) {
    report.note(fmt::format("{} is ABSENT: there can be no hosts here: {}",
                            place.name, reason));
    return;
  }
  NetLab lab(kDdpRanks);
  for (int host = 0; host < kDdpRanks; ++host) lab.limit(host, place.megabits);
  report.note(fmt::format(
      "{}: network namespaces joined by a bridge, {} Mbit/s in each direction "
      "(tbf)",
      place.name, place.megabits));
  Field(place, &lab, hooks, report).run();
}

void run_hooks(const std::string& only, Report& report) {
  report.note(fmt::format(
      "seconds per step, mlp25, batch 16, SGD, gradients dropped; {} rounds; "
      "rank r on core r; bytes on the wire are those of one step and the rank "
      "that sends most",
      report.rounds()));
  report.note(
      has_pytorch()
          ? "pytorch-power_sgd has one bucket, without overlap: with several "
            "its collectives are launched in another order on each rank, and "
            "Gloo aborts"
          : absence_of_pytorch());
  for (const Place& place : kPlaces) run_place(place, only, report);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  std::string only;
  return lockstep::bench::run(
      "hooks", argc, argv,
      [&](lockstep::bench::Report& report) {
        lockstep::bench::run_hooks(only, report);
      },
      {{"--only", "Cases or hooks with this in their name", &only}});
}

// SPDX-License-Identifier: Apache-2.0
#include "ddp/sides.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::bench {
namespace {

constexpr double kTurnTime = 0.15;  // seconds
constexpr int kFewestSteps = 3;

std::unique_ptr<Team> make_team(Party party, const std::string& program,
                                const std::string& variant,
                                const testing::NetLab* lab) {
  TeamOptions options;
  options.lab = lab;
  options.variant = variant;
  options.environment = {"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                         "OPENBLAS_NUM_THREADS=1"};
  options.program = program;
  return std::make_unique<Team>(party, kDdpRanks, options);
}

}  // namespace

std::vector<double> Side::values(Part part) const {
  std::vector<double> values;
  for (const StepTimes& times : rounds) values.push_back(times.*part);
  return values;
}

std::string Side::text() const {
  return name + (order.gradients == "drop" ? " (gradients dropped)"
                                           : " (gradients zeroed in place)");
}

std::unique_ptr<Team> make_our_team(const std::string& backend,
                                    const testing::NetLab* lab) {
  return make_team(Party::kLockstep, DDP_WORKER, backend, lab);
}

std::unique_ptr<Team> make_pytorch_team(const testing::NetLab* lab) {
  return make_team(Party::kPyTorch, PYTORCH_DDP_WORKER, "", lab);
}

bool has_pytorch() { return !std::string(PYTORCH_DDP_WORKER).empty(); }

std::string absence_of_pytorch() {
  return "PyTorch is ABSENT: python3-torch was not found when this program was "
         "built, and there are no rows for it";
}

Teams::Teams(const std::string& backend, const testing::NetLab* lab,
             const Report& report)
    : ours(make_our_team(backend, lab)) {
  report.note("ours, local: " + ours->settings());
  if (!has_pytorch()) return;
  pytorch = make_pytorch_team(lab);
  report.note("pytorch-ddp: " + pytorch->settings());
}

std::vector<Side> Teams::sides(const std::string& model, int64_t batch,
                               int64_t bucket_bytes) const {
  std::vector<Side> sides = {
      {"ours", ours.get(), {model, batch, "overlap", bucket_bytes}},
      {"local", ours.get(), {model, batch, "local"}}};
  if (pytorch) {
    sides.push_back({"pytorch-ddp",
                     pytorch.get(),
                     {model, batch, "overlap", bucket_bytes}});
  }
  return sides;
}

void run_rounds(int rounds, std::vector<Side>& sides) {
  for (const Side& side : sides) side.run();
  for (int round = 0; round < rounds; ++round) {
    for (Side& side : sides) side.rounds.push_back(side.run());
    for (auto side = sides.rbegin(); side != sides.rend(); ++side) {
      side->rounds.back() = (side->rounds.back() + side->run()) / 2;
    }
  }
}

void settle_steps(std::vector<Side>& sides) {
  sides[1].run();
  const int fitting = static_cast<int>(kTurnTime / sides[1].run().step);
  for (Side& side : sides) side.order.steps = std::max(kFewestSteps, fitting);
}

std::vector<Side> in_both_ways(const std::vector<Side>& sides) {
  std::vector<Side> result;
  for (const Side& side : sides) {
    for (const char* const way : {"keep", "drop"}) {
      result.push_back(side);
      result.back().order.gradients = way;
    }
  }
  return result;
}

std::vector<Side> in_the_better_way(const std::vector<Side>& sides) {
  std::vector<Side> result;
  for (size_t i = 0; i < sides.size(); i += 2) {
    const bool dropped = sides[i + 1].median_of(&StepTimes::step) <
                         sides[i].median_of(&StepTimes::step);
    result.push_back(sides[i + (dropped ? 1 : 0)]);
  }
  return result;
}

std::string percent_text(std::vector<double> shares) {
  std::sort(shares.begin(), shares.end());
  const size_t quarter = shares.size() / 4;
  return fmt::format("{:.1f} % ({:.1f} to {:.1f})", 100 * median(shares),
                     100 * shares[quarter],
                     100 * shares[shares.size() - 1 - quarter]);
}

std::string overhead_text(const Side& a, const Side& b, Side::Part part) {
  std::vector<double> shares;
  for (size_t i = 0; i < a.rounds.size(); ++i) {
    shares.push_back(a.rounds[i].*part / b.rounds[i].*part - 1);
  }
  return percent_text(shares);
}

std::string parts_text(const Side& side) {
  const auto ms = [&](Side::Part part) { return 1e3 * side.median_of(part); };
  std::string text =
      fmt::format("{}: step {:.2f} ms", side.text(), ms(&StepTimes::step));
  if (ms(&StepTimes::backward) > 0) {  // PyTorch's are not known
    text += fmt::format(
        " = zero {:.2f} + forward {:.2f} + backward {:.2f} + update {:.2f}",
        ms(&StepTimes::zero), ms(&StepTimes::forward), ms(&StepTimes::backward),
        ms(&StepTimes::update));
  }
  text += fmt::format("; processor time {:.2f}", ms(&StepTimes::processor));
  if (side.order.traced) {
    text += fmt::format(
        "; waiting in backward {:.2f} (the rank that computes longest) to "
        "{:.2f}; lane: collectives {:.2f}, local steps {:.2f}",
        ms(&StepTimes::wait), ms(&StepTimes::longest_wait),
        ms(&StepTimes::lane), ms(&StepTimes::local_steps));
  }
  return text;
}

}  // namespace lockstep::bench

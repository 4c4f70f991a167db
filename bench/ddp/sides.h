// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/team.h"
#include "ddp/step_order.h"
#include "support.h"

namespace lockstep::bench {

constexpr int kDdpRanks = 2;

// One who takes part in a comparison: what a team is ordered to do, and how
// that went in each round.
struct Side {
  using Part = double StepTimes::*;

  std::string name;
  Team* team;
  StepOrder order;
  std::vector<StepTimes> rounds = {};

  std::string text() const;  // name, and how gradients are emptied
  StepTimes run() const { return slowest(team->ask(to_text(order))); }
  std::vector<double> values(Part part = &StepTimes::step) const;
  double median_of(Part part) const { return median(values(part)); }
};

// Teams that train, on the hosts of a lab or, without one, here. Not to be
// called for PyTorch's where it was not found.
std::unique_ptr<Team> make_our_team(const std::string& backend,
                                    const testing::NetLab* lab);
std::unique_ptr<Team> make_pytorch_team(const testing::NetLab* lab);
bool has_pytorch();
std::string absence_of_pytorch();  // words about that

// The teams of one place: ours, and PyTorch's if there is PyTorch.
struct Teams {
  Teams(const std::string& backend, const testing::NetLab* lab,
        const Report& report);

  // "ours", "local" and "pytorch-ddp", in this order.
  std::vector<Side> sides(const std::string& model, int64_t batch,
                          int64_t bucket_bytes = 0) const;

  std::unique_ptr<Team> ours;
  std::unique_ptr<Team> pytorch;  // or null
};

// A round has all sides train in turn, there and back, and takes the mean of
// the two times: what disturbs the machine disturbs all, and nobody gains from
// its place in the row. An uncounted turn comes first, to warm up. Only one
// side runs at a time; the others wait for orders.
void run_rounds(int rounds, std::vector<Side>& sides);

// How many steps a turn has, by the second side: the same for all.
void settle_steps(std::vector<Side>& sides);

// Gradients can be emptied in two ways. Each side in both, before rounds are
// run, and after them each in the way that was quicker.
std::vector<Side> in_both_ways(const std::vector<Side>& sides);
std::vector<Side> in_the_better_way(const std::vector<Side>& sides);

// The median, and the quartiles beside it: "12.3 % (11.0 to 14.1)". Of shares,
// and of how much more `a` takes than `b`, by round.
std::string percent_text(std::vector<double> shares);
std::string overhead_text(const Side& a, const Side& b, Side::Part part);

// Where the time of a side's step goes.
std::string parts_text(const Side& side);

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
// What starting ranks costs: `lockstep run -n 4 -- true` beyond running `true`
// four times, and 64 ranks until all have met. The rivals are the goals.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "command.h"
#include "lockstep/base/error.h"
#include "support.h"

namespace {

using namespace lockstep;

double seconds_of(const std::string& command, const std::string& proof) {
  const auto result = bench::run_command(command);
  LOCKSTEP_CHECK(
      result.exit_code == 0 && result.output.find(proof) != std::string::npos,
      InternalError, "'{}' ended with {}: {}", command, result.exit_code,
      result.output);
  return result.seconds;
}

bench::Comparison against_goal(std::vector<double> seconds, double goal) {
  std::sort(seconds.begin(), seconds.end());
  bench::Comparison result;
  result.ours = bench::median(seconds);
  result.best_ours = seconds.front();
  result.rival = result.best_rival = goal;
  result.ratio = goal / result.ours;
  result.lowest_ratio = goal / seconds.back();
  result.highest_ratio = goal / seconds.front();
  return result;
}

void measure(bench::Report& report) {
  const std::string run = std::string(LOCKSTEP_TOOL) + " run -n ";
  std::vector<double> beyond;
  std::vector<double> meeting;
  for (int i = 0; i < report.rounds(); ++i) {
    const double plain = seconds_of("for i in 1 2 3 4; do /bin/true; done", "");
    const double ours = seconds_of(run + "4 -- /bin/true", "");
    beyond.push_back(std::max(ours - plain, 1e-6));
    meeting.push_back(seconds_of(run + "64 -- " + LOCKSTEP_HELLO_RANKS,
                                 "all 64 ranks have met"));
  }
  report.note("seconds; rival: the goal");
  report.add(
      {"beyond four times true", "goal", 0, 4, against_goal(beyond, 0.150)});
  report.add({"64 ranks have met", "goal", 0, 64, against_goal(meeting, 3)});
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::bench::run("launch", argc, argv, measure);
}

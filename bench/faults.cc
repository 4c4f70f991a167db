// SPDX-License-Identifier: Apache-2.0
// How long it takes from the death of a rank to the end of the job, with
// everything about it right: the rank, how it died, its last lines, the exit
// code; and, on backend shm, until all others know. The rival is the goal.
#include <algorithm>
#include <csignal>
#include <vector>

#include <fmt/format.h>

#include "command.h"
#include "faults_kill.h"
#include "lockstep/base/error.h"
#include "support.h"

namespace {

using namespace lockstep;

constexpr double kGoalSeconds = 2;
constexpr int kRanks = 4;

struct Way {
  const char* how;
  int exit_code;
  const char* text;
};

double time_of(const Way& way, const char* when, int rank) {
  const auto result = bench::run_command(
      fmt::format("{} run -n {} -- {} fail {} {} {}", LOCKSTEP_TOOL, kRanks,
                  LOCKSTEP_LAUNCH_WORKER, way.how, rank, when));
  const auto has = [&](const std::string& text) {
    return result.output.find(text) != std::string::npos;
  };
  LOCKSTEP_CHECK(result.exit_code == way.exit_code &&
                     has(fmt::format("rank {} failed: {}", rank, way.text)) &&
                     has("| last words"),
                 InternalError, "rank {} by {} was reported as: {}", rank,
                 way.how, result.output);
  return result.seconds;
}

void measure_jobs(bench::Report& report) {
  const int repetitions = report.rounds() >= 15 ? 100 : 12;
  report.note(
      fmt::format("{} ranks, {} repetitions of each, each rank in "
                  "turn; ours: 99th percentile; rival: the goal",
                  kRanks, repetitions));
  for (const Way& way : {Way{"kill", 128 + SIGKILL, "killed by SIGKILL"},
                         Way{"abort", 128 + SIGABRT, "killed by SIGABRT"},
                         Way{"exit", 3, "exited with code 3"},
                         Way{"throw", 128 + SIGABRT, "killed by SIGABRT"}}) {
    for (const char* when : {"before", "after"}) {
      std::vector<double> seconds;
      for (int i = 0; i < repetitions; ++i) {
        seconds.push_back(time_of(way, when, i % kRanks));
      }
      std::sort(seconds.begin(), seconds.end());
      bench::Comparison result;
      result.ours = seconds[seconds.size() * 99 / 100];
      result.best_ours = seconds.front();
      result.rival = result.best_rival = kGoalSeconds;
      result.ratio = kGoalSeconds / result.ours;
      result.lowest_ratio = kGoalSeconds / seconds.back();
      result.highest_ratio = kGoalSeconds / seconds.front();
      report.add({fmt::format("{} {} meeting", way.how, when), "goal", 0,
                  kRanks, result});
    }
  }
}

void measure(bench::Report& report) {
  bench::measure_kills(report, "shm", 0.1);
  bench::measure_kills(report, "gloo", 1);
  measure_jobs(report);
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::bench::run("faults", argc, argv, measure);
}

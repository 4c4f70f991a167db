// SPDX-License-Identifier: Apache-2.0
// What the Reducer costs beside communication: instructions per gradient, its
// share of a step, and memory. Its group has a backend that does nothing.
//
//   hook/N       instructions per gradient in the hook behind it, with N
//                parameters, ten to a bucket, against 10 parameters: a flat
//                line has the ratio 1
//   share        instructions of the Reducer in a step of an MLP of 64-wide
//                layers, against 2 % of the step
//   difference   the same, as a step with a Reducer minus one without
//   stats        instructions that times and statistics take in that step, of
//                a module in DistributedDataParallel, against 0.5 % of it
//   time         processor time of that step, against one without a Reducer;
//                time/noop with a hook that launches nothing, so without the
//                thread of the group; time/control without a Reducer, too
//   views, copies
//                bytes of gradients and buckets per byte of parameters, two
//                ranks, with and without gradient_as_bucket_view
#include <algorithm>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "binding.h"
#include "command.h"
#include "lockstep/base/error.h"
#include "lockstep/hook/comm_hook.h"
#include "reducer/callgrind.h"
#include "reducer/idle_backend.h"
#include "reducer/memory.h"
#include "reducer/model.h"
#include "support.h"

namespace lockstep::bench {
namespace {

constexpr int kLayers = 20;

// ---- Instructions.

// Those of the Reducer, by where they are spent. For all steps counted.
struct Cost {
  double hook;    // behind gradients, with what is in there:
  double launch;  // buckets that are handed to the group
  double around;  // before and after: preparing, the end of backward
  double lane;    // the thread of the group
  double step;    // all there are, ours and others

  double all() const { return hook + around + lane; }
};

Profile run_steps(const std::string& what, int size, int steps) {
  return profile(
      fmt::format("{} count {} {} {}", REDUCER_WORKER, what, size, steps));
}

Cost count(const std::string& what, int size, int steps) {
  const Profile found = run_steps(what, size, steps);
  const std::string ours = "lockstep::detail::";
  const std::string hooks = ours + "(anonymous namespace)::TellingHook<" + ours;
  Cost cost = {};
  cost.hook = found.inside(hooks + "GradHooks");
  cost.launch = found.inside(ours + "ReducerCore::run_comm_hook(");
  cost.around = found.inside("lockstep::Reducer::prepare_for_") +
                found.inside(hooks + "watch_outputs") +
                found.inside(ours + "ReducerCore::end_task(");
  cost.lane = found.other_threads;
  cost.step = found.main_thread + found.other_threads;
  return cost;
}

Comparison exact(double ours, double rival) {
  Comparison result;
  result.ours = result.best_ours = ours;
  result.rival = result.best_rival = rival;
  result.ratio = result.lowest_ratio = result.highest_ratio = rival / ours;
  return result;
}

void run_hooks(Report& report) {
  report.note("hook: instructions per gradient, ten gradients to a bucket");
  double first = 0, least = 0, most = 0;
  for (const int parameters : {10, 100, 1000, 10000}) {
    if (report.is_quick() && parameters > 1000) break;
    const int steps = parameters < 1000 ? 10 : 2;
    const Cost cost = count("leaves", parameters, steps);
    const double gradients = static_cast<double>(parameters) * steps;
    const double hook = cost.hook / gradients;
    if (first == 0) first = least = most = hook;
    least = std::min(least, hook);
    most = std::max(most, hook);
    report.note(fmt::format(
        "{} parameters, per gradient: hook {:.0f}, of which launching buckets "
        "{:.0f}; around backward {:.0f}; the lane's thread {:.0f}; all {:.0f}",
        parameters, hook, cost.launch / gradients, cost.around / gradients,
        cost.lane / gradients, cost.all() / gradients));
    report.add({fmt::format("hook/{}", parameters), "10 params",
                static_cast<size_t>(parameters) * kLeafBytes, 1,
                exact(hook, first), "", 0.9});
  }
  report.note(fmt::format("hook: most / least {:.3f}", most / least));
}

void run_share(Report& report) {
  constexpr int kSteps = 5;
  constexpr double kGoal = 0.02;
  const Cost cost = count("mlp", kLayers, kSteps);
  const Profile alone = run_steps("alone", kLayers, kSteps);
  const double difference = cost.step - alone.main_thread - alone.other_threads;
  report.note(fmt::format(
      "share: instructions of a step of {} layers of 64: {:.0f}; of them in "
      "hooks {:.0f}, around backward {:.0f}, on the lane's thread {:.0f}: "
      "{:.2f} %; more than without a Reducer: {:.2f} %",
      kLayers, cost.step / kSteps, cost.hook / kSteps, cost.around / kSteps,
      cost.lane / kSteps, 100 * cost.all() / cost.step,
      100 * difference / cost.step));
  const double allowed = kGoal * cost.step / kSteps;
  report.add({"share", "2 % of step", 0, 1, exact(cost.all() / kSteps, allowed),
              "", 1});
  report.add(
      {"difference", "2 % of step", 0, 1, exact(difference / kSteps, allowed)});
}

void run_stats(Report& report) {
  constexpr int kSteps = 5;
  constexpr double kGoal = 0.005;
  const Profile found = run_steps("wrapped", kLayers, kSteps);
  const std::string ours = "lockstep::detail::";
  // Without StepClock::wait(), most of which is the wait itself.
  double stats = found.inside(ours + "StatsKeeper::");
  for (const char* const part : {"begin_", "launch(", "end_waits(", "end("}) {
    stats += found.inside(ours + "StepClock::" + part);
  }
  const double step = found.main_thread + found.other_threads;
  report.note(fmt::format(
      "stats: instructions of a step {:.0f}; of them for times and statistics "
      "{:.0f}: {:.3f} %",
      step / kSteps, stats / kSteps, 100 * stats / step));
  report.add({"stats", "0.5 % of step", 0, 1,
              exact(stats / kSteps, kGoal * step / kSteps), "", 1});
}

// ---- Time.

// Seconds of processor time on all threads: whoever else uses the machine does
// not count.
double processor_time() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

double step_time(Model& model, Reducer* reducer) {
  constexpr int kSteps = 4;
  const double begin = processor_time();
  for (int i = 0; i < kSteps; ++i) train_step(model, reducer);
  return (processor_time() - begin) / kSteps;
}

// The difference is small: a round takes a few steps of each in turn, many
// times, and the medians.
Comparison compare_steps(int rounds, Model& model, Reducer* reducer) {
  constexpr int kTurns = 40;
  Model plain = make_mlp(small_mlp(kLayers));
  std::vector<double> ours, rival;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> with, without;
    for (int turn = 0; turn < kTurns; ++turn) {
      with.push_back(step_time(model, reducer));
      without.push_back(step_time(plain, nullptr));
      without.push_back(step_time(plain, nullptr));
      with.push_back(step_time(model, reducer));
    }
    ours.push_back(median(with));
    rival.push_back(median(without));
  }
  return compare(Better::kLess, ours, rival);
}

void run_time(Report& report) {
  constexpr double kGoal = 0.98;
  const Binding one_core(allowed_cpus().back());
  at::set_num_threads(1);
  report.note(fmt::format(
      "time: processor seconds of a step, bound to one core, {} rounds",
      report.rounds()));
  Model model = make_mlp(small_mlp(kLayers));
  const auto add = [&](const char* name, Reducer* reducer, double goal) {
    report.add({name, "no reducer", 0, 1,
                compare_steps(report.rounds(), model, reducer), "", goal});
  };
  add("time/control", nullptr, 0);
  Reducer reducer(model.parameters, make_idle_group());
  add("time", &reducer, kGoal);
  reducer.register_comm_hook(hooks::noop(), "noop");
  add("time/noop", &reducer, kGoal);
}

// ---- Memory.

void run_memory(Report& report) {
  report.note(
      "views, copies: bytes of gradients and buckets per byte of"
      " parameters");
  for (const std::string backend : {"local", "shm"}) {
    for (const std::string kind : {"views", "copies"}) {
      const std::string command =
          fmt::format("{} memory {} {}", REDUCER_WORKER, backend, kind);
      const auto result = run_command(command);
      std::istringstream words(result.output);
      double parameters = 0, counted = 0, grown = 0;
      words >> parameters >> counted >> grown;
      LOCKSTEP_CHECK(result.exit_code == 0 && words, InternalError,
                     "'{}' ended with {}: {}", command, result.exit_code,
                     result.output);
      const bool as_views = kind == "views";
      report.add({kind + " " + backend, "parameters",
                  static_cast<size_t>(parameters), 2,
                  exact(counted / parameters, as_views ? 1 : 2), "",
                  as_views ? 1.0 : 0.0});
      report.note(fmt::format("{} {}: physical memory has grown by {:.3f}",
                              kind, backend, grown / parameters));
    }
  }
}

void run_reducer(Report& report) {
  run_hooks(report);
  run_share(report);
  run_stats(report);
  run_time(report);
  run_memory(report);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::run("reducer", argc, argv,
                              lockstep::bench::run_reducer);
}

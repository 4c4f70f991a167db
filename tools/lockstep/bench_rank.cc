// SPDX-License-Identifier: Apache-2.0
#include "bench_rank.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "bench_call.h"
#include "bench_report.h"

namespace lockstep::tool {
namespace {

using Clock = Deadline::Clock;

// Long enough for the clock and the scatter of a barrier not to count.
constexpr double kLeastSeconds = 100e-6;
constexpr double kMostTimes = 1000;

double median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Helpers of the benchmark's own, not of what it measures.
CallOptions at_once() {
  CallOptions options;
  options.sync = true;
  return options;
}

// The slowest rank's figures, on every rank.
void slowest(ProcessGroup& group, std::vector<double>& seconds) {
  group.all_reduce(buffer_of(seconds), ReduceOp::kMax, at_once());
}

// Whether no two ranks of the host may use the same cpu.
std::string binding_of(ProcessGroup& group, const BenchPlace& place) {
  if (!place.one_host) return "as it was started";
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof mine, &mine);
  std::vector<uint8_t> in(sizeof mine);
  std::memcpy(in.data(), &mine, sizeof mine);
  std::vector<uint8_t> all(in.size() * static_cast<size_t>(group.size()));
  group.all_gather(buffer_of(in), buffer_of(all), {}, at_once());
  std::vector<uint8_t> taken(in.size());
  bool apart = true;
  for (size_t i = 0; i < all.size(); ++i) {
    uint8_t& others = taken[i % in.size()];
    apart = apart && (others & all[i]) == 0;
    others |= all[i];
  }
  return apart ? "own cpus" : "none";
}

// One thing that all ranks do at the same time, and how long it takes.
class Stopwatch {
 public:
  // Does it `warmup` times, and finds out how many are long enough to be timed;
  // that many, the same on all ranks, make one measurement.
  template <class Step>
  Stopwatch(ProcessGroup& group, int warmup, const Step& step) : group_(group) {
    std::vector<double> least = {1e9};
    for (int i = 0; i < warmup; ++i) {
      const auto begin = Clock::now();
      step();
      least[0] = std::min(least[0], seconds_since(begin));
    }
    slowest(group_, least);
    const double times = kLeastSeconds / std::max(least[0], 1e-9);
    times_ = static_cast<int>(std::clamp(times, 1.0, kMostTimes));
  }

  // The first one after the barrier finds the others not yet in step, and the
  // cache full of other things: it is not counted.
  template <class Step>
  void measure(const Step& step) {
    group_.barrier(at_once());
    step();
    const auto begin = Clock::now();
    for (int i = 0; i < times_; ++i) step();
    seconds_.push_back(seconds_since(begin) / times_);
  }

  // The median of the slowest rank's. All ranks call it.
  double result() {
    slowest(group_, seconds_);
    return median(seconds_);
  }

 private:
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  ProcessGroup& group_;
  int times_ = 1;
  std::vector<double> seconds_;
};

// Elements that are wrong after one operation on fresh data, on this rank.
int64_t check(BenchCall& call, uint32_t seed) {
  call.prepare(seed);
  call.run();
  return static_cast<int64_t>(call.wrong());
}

// Collectives and copies in turn, so that what disturbs the machine disturbs
// both.
BenchRow measure(const BenchOptions& options, ProcessGroup& group,
                 BenchCall& call, size_t bytes, bool with_copies) {
  const auto run = [&] { call.run(); };
  const RegisteredMemory from = plain_memory(with_copies ? bytes : 0);
  const RegisteredMemory to = plain_memory(with_copies ? bytes : 0);
  if (with_copies) std::memset(from.data(), 1, bytes);
  const auto copy = [&] {
    if (with_copies) std::memcpy(to.data(), from.data(), bytes);
  };
  Stopwatch collectives(group, options.warmup, run);
  Stopwatch copies(group, options.warmup, copy);
  for (int i = 0; i < options.iterations; ++i) {
    collectives.measure(run);
    if (with_copies) copies.measure(copy);
  }
  BenchRow row;
  row.bytes = bytes;
  row.seconds = collectives.result();
  if (with_copies) row.copy_seconds = copies.result();
  return row;
}

}  // namespace

int bench_rank(const BenchOptions& options, ProcessGroup& group,
               const BenchPlace& place) {
  const std::vector<size_t> sizes = sizes_for(options, group.size());
  const BenchMemory memory(options, group, sizes.back());
  BenchReport report(options, {group.size(), group.backend_name(),
                               place.threads ? "threads" : "processes",
                               binding_of(group, place)});
  const bool prints = group.rank() == 0;
  if (prints) report.begin();
  int64_t wrong = 0;
  for (const size_t bytes : sizes) {
    BenchCall call(options, group, memory, bytes);
    call.prepare(0);
    std::vector<int64_t> mine = {0};
    if (options.check) mine[0] += check(call, 1);
    BenchRow row =
        measure(options, group, call, bytes, place.one_host && bytes > 0);
    if (options.check) mine[0] += check(call, 2);
    wrong += mine[0];  // should adding them up be what is broken
    group.all_reduce(buffer_of(mine), ReduceOp::kSum, at_once());
    row.wrong = mine[0];
    wrong += row.wrong;
    if (prints) report.add(row);
  }
  group.barrier(at_once());
  if (prints && wrong > 0) std::fputs("lockstep: results are wrong\n", stderr);
  return wrong > 0 ? 1 : 0;
}

}  // namespace lockstep::tool

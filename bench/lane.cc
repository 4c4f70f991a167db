// SPDX-License-Identifier: Apache-2.0
// What one call on a group costs, on threads: nanoseconds per all_reduce of
// 1 KB, less is better.
//
//   sync   against the backend alone ("backend"): what the group adds
//   async  launch and wait, against sync: what the thread of the lane adds
//   trace  sync while a trace is recorded, against sync while none is
//
// "ranks" are threads of this process, bound to a core each.
#include <chrono>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "binding.h"
#include "lockstep/backend/local.h"
#include "lockstep/trace/trace.h"
#include "support.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kElements = 256;

// One rank: its group, and a backend of its own beside it.
struct Rank {
  std::shared_ptr<ProcessGroup> group;
  std::unique_ptr<Backend> backend;
  std::vector<float> data = std::vector<float>(kElements);

  void sync() {
    CallOptions options;
    options.sync = true;
    group->all_reduce(buffer_of(data), ReduceOp::kSum, options);
  }
  void async() { group->all_reduce(buffer_of(data))->wait(); }
  void raw() {
    CollectiveOp op;
    op.kind = op.signature.kind = OpKind::kAllReduce;
    op.in = op.out = buffer_of(data);
    Patience patience(std::chrono::seconds(60));
    backend->run(op, patience);
  }
};

class Team {
 public:
  explicit Team(int size) : size_(size) {
    auto groups = make_local_groups(size);
    const BackendFactory factory = make_local_factory();
    for (int r = 0; r < size; ++r) {
      GroupPlace place;
      place.name = "raw";
      place.rank = r;
      place.size = size;
      place.bell = std::make_shared<Bell>();
      ranks_.push_back({groups[static_cast<size_t>(r)], factory(place), {}});
      ranks_.back().data.resize(kElements);
    }
  }

  // Nanoseconds for each of `times` calls, as rank 0 sees it.
  double measure(void (Rank::*call)(), int times) {
    double result = 0;
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r) {
      threads.emplace_back([&, r] {
        const auto cpus = allowed_cpus();
        const Binding here(cpus[static_cast<size_t>(r) % cpus.size()]);
        Rank& rank = ranks_[static_cast<size_t>(r)];
        for (int i = 0; i < times / 10; ++i) (rank.*call)();
        const auto begin = Clock::now();
        for (int i = 0; i < times; ++i) (rank.*call)();
        if (r > 0) return;
        const auto time = Clock::now() - begin;
        result = std::chrono::duration<double, std::nano>(time).count() / times;
      });
    }
    for (auto& thread : threads) thread.join();
    return result;
  }

 private:
  const int size_;
  std::vector<Rank> ranks_;
};

void run_lane(Report& report) {
  report.note(
      fmt::format("ns per all_reduce of 1 KB, {} rounds", report.rounds()));
  for (const int size : {1, 2}) {
    Team team(size);
    const auto add = [&](const char* name, const char* rival,
                         const Measure& ours, const Measure& theirs) {
      report.add({name, rival, kElements * sizeof(float), size,
                  compare(report.rounds(), Better::kLess, ours, theirs)});
    };
    const Measure sync = [&] { return team.measure(&Rank::sync, 20000); };
    add("sync", "backend", sync,
        [&] { return team.measure(&Rank::raw, 20000); });
    add(
        "async", "sync", [&] { return team.measure(&Rank::async, 2000); },
        sync);
    const Measure traced = [&] {
      trace::start();
      const double time = team.measure(&Rank::sync, 20000);
      trace::stop();
      return time;
    };
    add("trace", "sync", traced, sync);
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::run("lane", argc, argv, lockstep::bench::run_lane);
}

// SPDX-License-Identifier: Apache-2.0
// What a rank of rank_worker computes: at random, or everything once.
#include <array>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "support/collective_case.h"
#include "support/rank_worker.h"

namespace lockstep::testing {
namespace {

// Draws the same on all ranks.
class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}

  uint32_t below(uint32_t end) {
    return static_cast<uint32_t>(engine_() % uint64_t{end});
  }
  bool flip() { return below(2) == 0; }
  // In one line, in one phase, in one window, in some. No more: most of the
  // time should go into collectives, not into filling and checking.
  size_t count() {
    static constexpr std::array<uint32_t, 4> kMost = {12, 2000, 50000, 150000};
    return 1 + below(kMost[below(kMost.size())]);
  }

 private:
  std::mt19937 engine_;
};

void check(const std::string& problem) {
  LOCKSTEP_CHECK(problem.empty(), InternalError, "{}", problem);
}

// One collective after the other, or several in flight.
void play_ordinary(ProcessGroup& group, Dice& dice) {
  std::vector<std::unique_ptr<CaseRun>> runs;
  std::vector<std::shared_ptr<Work>> works;
  const uint32_t in_flight = 1 + dice.below(3);
  for (uint32_t i = 0; i < in_flight; ++i) {
    CollectiveCase one;
    one.collective = static_cast<Collective>(dice.below(kCollectiveCount));
    one.count = dice.count();
    one.in_place = dice.flip();
    one.root =
        static_cast<int>(dice.below(static_cast<uint32_t>(group.size())));
    one.seed = dice.below(1000);
    runs.push_back(std::make_unique<CaseRun>(one, group.rank(), group.size()));
    CallOptions options;
    options.sync = dice.flip();
    works.push_back(runs.back()->start(group, std::move(options)));
  }
  for (const auto& work : works) work->wait();
  for (const auto& run : runs) check(run->problem());
}

// Parts of one registered memory: `whole` for a part per rank, `part` for one.
std::shared_ptr<Work> start_registered(ProcessGroup& group, uint32_t kind,
                                       Buffer whole, Buffer part, int root) {
  switch (kind) {
    case 0:
      return group.all_reduce(whole);
    case 1:
      return group.broadcast(whole, root);
    case 2:
      return group.reduce(whole, whole, ReduceOp::kSum, root);
    case 3:
      return group.all_gather(part, whole);
    case 4:
      return group.gather(part, whole, root);
    case 5:
      return group.scatter(whole, part, root);
    case 6:
      return group.reduce_scatter(whole, part, ReduceOp::kMax);
    default:
      return group.all_reduce(part, ReduceOp::kAverage);
  }
}

void play_registered(ProcessGroup& group, Dice& dice,
                     const RegisteredMemory& memory) {
  const auto ranks = static_cast<size_t>(group.size());
  const size_t room = memory.size() / sizeof(float) / (ranks + 1);
  const size_t count = std::min(dice.count(), room);
  const Buffer whole = memory.buffer(DType::kFloat32, count * ranks);
  const Buffer part =
      memory.buffer(DType::kFloat32, count, room * ranks * sizeof(float));
  const uint32_t kind = dice.below(8);
  const auto root = static_cast<int>(dice.below(static_cast<uint32_t>(ranks)));
  start_registered(group, kind, whole, part, root)->wait();
}

// Each to the next in the ring, all at once.
void pass_around(ProcessGroup& group, size_t count) {
  const int next = (group.rank() + 1) % group.size();
  const int last = (group.rank() + group.size() - 1) % group.size();
  std::vector<int32_t> out(count, group.rank());
  std::vector<int32_t> in(count, -1);
  const auto received = group.recv(buffer_of(in), last);
  const auto sent = group.send(buffer_of(out), next);
  received->wait();
  sent->wait();
  LOCKSTEP_CHECK(in == std::vector<int32_t>(count, last), InternalError,
                 "another message than rank {}'s", last);
}

// A message also fails when its sender has ended because another rank did; a
// collective names the one with whom it began.
void play_ring(ProcessGroup& group, size_t count) {
  try {
    pass_around(group, count);
  } catch (const PeerError&) {
    group.barrier()->wait();
    throw;
  }
}

}  // namespace

void play_for_ever(ProcessGroup& group, uint32_t seed) {
  Dice dice(seed);
  constexpr size_t kBytes = size_t{4} << 20;
  RegisteredMemory memory = group.allocate(kBytes);
  while (true) {
    const uint32_t what = dice.below(20);
    if (what < 8) {
      play_ordinary(group, dice);
    } else if (what < 15) {
      play_registered(group, dice, memory);
    } else if (what < 18) {
      play_ring(group, dice.count());
    } else if (what < 19) {
      group.barrier()->wait();
    } else {
      memory = group.allocate(kBytes);
    }
  }
}

void smoke(ProcessGroup& group) {
  const size_t count = 10000;
  for (uint32_t i = 0; i < kCollectiveCount; ++i) {
    CollectiveCase one;
    one.collective = static_cast<Collective>(i);
    one.count = count;
    one.root = group.size() - 1;
    one.seed = i;
    CaseRun run(one, group.rank(), group.size());
    run.start(group)->wait();
    check(run.problem());
  }
  group.barrier()->wait();
  play_ring(group, 10);
  play_ring(group, count);
  const RegisteredMemory memory = group.allocate(count * sizeof(float));
  const Pattern pattern(DType::kFloat32, ReduceOp::kSum, group.size(), 1);
  const Buffer all = memory.buffer(DType::kFloat32, count);
  pattern.fill_input(all, group.rank());
  group.all_reduce(all)->wait();
  check(pattern.reduced_problem(all));
  if (group.rank() == 1) pattern.fill_input(all, 1);
  group.broadcast(all, 1)->wait();
  check(pattern.input_problem(all, 1));
  group.shutdown(Deadline::in(std::chrono::seconds(60)));
}

}  // namespace lockstep::testing

// SPDX-License-Identifier: Apache-2.0
#include "contract/random_program.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

namespace lockstep {
namespace {

using testing::Collective;
using testing::CollectiveCase;

class Writer {
 public:
  Writer(Program& program, uint32_t seed) : program_(program), random_(seed) {}

  void write() {
    program_.ranks = 2 + below(4);
    make_groups();
    const int steps = 5 + below(25);
    for (int i = 0; i < steps; ++i) program_.steps.push_back(make_step());
    if (below(2) == 0) make_fault();
  }

 private:
  int below(int limit) {
    return static_cast<int>(random_() % static_cast<uint32_t>(limit));
  }
  bool one_in(int n) { return below(n) == 0; }

  void make_groups() {
    program_.groups.emplace_back();
    std::vector<int> all;
    for (int rank = 0; rank < program_.ranks; ++rank) all.push_back(rank);
    program_.members.emplace_back(all.size(), all);
    const int more = below(4);
    for (int i = 0; i < more; ++i) {
      Program::Group group;
      group.parent =
          static_cast<size_t>(below(static_cast<int>(program_.groups.size())));
      group.duplicate = one_in(2);
      group.colors = 1 + below(2);
      group.turned = one_in(2);
      group.leave_first = one_in(3);
      program_.members.push_back(members_of(group));
      program_.groups.push_back(group);
    }
  }

  std::vector<std::vector<int>> members_of(const Program::Group& group) const {
    const auto& parents = program_.members[group.parent];
    if (group.duplicate) return parents;
    std::vector<std::vector<int>> result;
    for (int me = 0; me < program_.ranks; ++me) {
      const auto& parent = parents[static_cast<size_t>(me)];
      std::vector<int> mine;
      int my_color = -1;
      for (size_t rank = 0; rank < parent.size(); ++rank) {
        if (parent[rank] == me) my_color = color_of(group, rank);
      }
      for (size_t rank = 0; rank < parent.size(); ++rank) {
        if (my_color >= 0 && color_of(group, rank) == my_color) {
          mine.push_back(parent[rank]);
        }
      }
      if (group.turned) std::reverse(mine.begin(), mine.end());
      result.push_back(std::move(mine));
    }
    return result;
  }

  static int color_of(const Program::Group& group, size_t rank) {
    if (group.leave_first && rank == 0) return -1;
    return static_cast<int>(rank) % group.colors;
  }

  // The size of the smallest part that a group has.
  int least_size(size_t group) const {
    size_t least = static_cast<size_t>(program_.ranks);
    for (const auto& members : program_.members[group]) {
      if (!members.empty()) least = std::min(least, members.size());
    }
    return static_cast<int>(least);
  }

  CollectiveCase make_case(size_t group) {
    static constexpr size_t kCounts[] = {0, 1, 3, 17, 300, 5000, 20'000};
    CollectiveCase one;
    one.collective = static_cast<Collective>(below(testing::kCollectiveCount));
    one.dtype = static_cast<DType>(below(kDTypeCount));
    if (testing::has_reduction(one.collective)) {
      do {
        one.reduce = static_cast<ReduceOp::Kind>(below(ReduceOp::kKindCount));
      } while (!is_defined(one.reduce, one.dtype));
    }
    one.count = kCounts[below(7)];
    one.in_place = one_in(2);
    one.unequal = one_in(3);
    one.root = below(least_size(group));
    one.seed = random_() % 100'000;
    return one;
  }

  ProgramStep make_step() {
    ProgramStep step;
    step.group =
        static_cast<size_t>(below(static_cast<int>(program_.groups.size())));
    step.sync = one_in(3);
    step.one = make_case(step.group);
    const int dice = below(20);
    step.kind = dice < 12   ? ProgramStep::kCollective
                : dice < 13 ? ProgramStep::kBarrier
                : dice < 17 ? ProgramStep::kMessage
                : dice < 18 ? ProgramStep::kPost
                            : ProgramStep::kDrain;
    if (step.kind == ProgramStep::kMessage) {
      step.from = below(least_size(step.group));
      step.to = below(least_size(step.group));
      step.tag = static_cast<int64_t>(program_.steps.size());
      step.any_source = one_in(3);
      if (step.from == step.to) step.sync = false;  // it would wait for itself
    }
    return step;
  }

  void make_fault() {
    ProgramFault fault;
    fault.kind = static_cast<ProgramFault::Kind>(below(5));
    fault.rank = below(program_.ranks);
    // A collective that this rank has with others.
    const size_t start = random_() % program_.steps.size();
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      fault.step = (start + i) % program_.steps.size();
      const ProgramStep& step = program_.steps[fault.step];
      const auto& members =
          program_.members[step.group][static_cast<size_t>(fault.rank)];
      if (step.kind != ProgramStep::kCollective || members.size() < 2) continue;
      fault.wrong = spoil(step.one, static_cast<int>(members.size()));
      program_.fault = fault;
      return;
    }
  }

  CollectiveCase spoil(CollectiveCase one, int size) {
    switch (below(4)) {
      case 0:
        one.dtype = one.dtype == DType::kInt32 ? DType::kInt64 : DType::kInt32;
        if (!is_defined(one.reduce, one.dtype)) one.reduce = ReduceOp::kSum;
        return one;
      case 1:
        if (!testing::has_reduction(one.collective)) break;
        one.reduce =
            one.reduce == ReduceOp::kMax ? ReduceOp::kMin : ReduceOp::kMax;
        return one;
      case 2:
        if (one.collective != Collective::kBroadcast &&
            one.collective != Collective::kReduce) {
          break;
        }
        one.root = (one.root + 1) % size;
        return one;
      default:
        break;
    }
    // With 7 more each, even halves and lists of parts differ.
    if (!one.unequal || one.collective != Collective::kAllToAll) {
      one.count += 7;
    } else {
      one.collective = Collective::kBroadcast;
    }
    return one;
  }

  Program& program_;
  std::mt19937 random_;
};

std::string fault_text(const ProgramFault& fault) {
  static constexpr const char* kNames[] = {
      "makes another call", "skips", "calls something extra", "dies", "aborts"};
  return fmt::format("rank {} {} at step {}{}", fault.rank, kNames[fault.kind],
                     fault.step,
                     fault.kind == ProgramFault::kWrongCall
                         ? ": " + testing::describe(fault.wrong)
                         : "");
}

}  // namespace

Program::Program(uint32_t the_seed) : seed(the_seed), ranks(0) {
  Writer(*this, the_seed).write();
}

std::string describe(const Program& program) {
  return fmt::format(
      "seed {}: {} ranks, {} groups, {} steps, {}; LOCKSTEP_SEED={} runs it "
      "alone",
      program.seed, program.ranks, program.groups.size(), program.steps.size(),
      program.fault ? fault_text(*program.fault) : "no fault", program.seed);
}

}  // namespace lockstep

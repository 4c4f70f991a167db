// SPDX-License-Identifier: Apache-2.0
// Programs that nobody would write: random collectives and messages on random
// groups, checked against the reference; in half of them a rank goes wrong at
// a random moment. Whatever happens, every rank ends in time, with a right
// value or with an error of an allowed kind.
//
// A failure names its seed. To run that one alone:
//   LOCKSTEP_SEED=1234 build/bin/random_programs_test
#include <atomic>
#include <memory>

#include <gtest/gtest.h>

#include "contract/backend_kinds.h"
#include "contract/random_program.h"
#include "lockstep/base/env.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::CaseRun;

// How one rank's part of a program ended; nothing means: well.
using Ending = std::optional<ErrorKind>;

// One rank carrying out a program. The memory of what it launches lives as
// long as this, and longer than its groups.
class Player {
 public:
  Player(const Program& program, std::shared_ptr<ProcessGroup> world)
      : program_(program), rank_(world->rank()) {
    groups_.push_back(std::move(world));
  }

  Ending play() {
    try {
      make_groups();
      for (size_t i = 0; i < program_.steps.size(); ++i) {
        if (!do_step(i)) break;
      }
      drain();
    } catch (const Error& error) {
      text_ = error.what();
      ending_ = error.kind();
    }
    groups_.clear();  // without a word
    return ending_;
  }

  const std::string& error_text() const { return text_; }

 private:
  struct Pending {
    std::shared_ptr<Work> work;
    std::function<std::string()> problem;
  };

  void make_groups() {
    for (size_t i = 1; i < program_.groups.size(); ++i) {
      const Program::Group& group = program_.groups[i];
      const auto parent = groups_[group.parent];
      if (!parent) {
        groups_.push_back(nullptr);
      } else if (group.duplicate) {
        groups_.push_back(parent->duplicate("copy"));
      } else {
        const bool out = group.leave_first && parent->rank() == 0;
        const int color =
            out ? ProcessGroup::kNoGroup : parent->rank() % group.colors;
        groups_.push_back(parent->split(
            color, group.turned ? -parent->rank() : parent->rank()));
      }
      const auto& members = program_.members[i][static_cast<size_t>(rank_)];
      EXPECT_EQ(groups_.back() == nullptr, members.empty());
      if (!groups_.back()) continue;
      EXPECT_EQ(groups_.back()->size(), static_cast<int>(members.size()));
      EXPECT_EQ(members[static_cast<size_t>(groups_.back()->rank())], rank_);
    }
  }

  // False when this rank ends here.
  bool do_step(size_t index) {
    const ProgramStep& step = program_.steps[index];
    const auto group = groups_[step.group];
    const auto& fault = program_.fault;
    const bool faulty = fault && fault->rank == rank_ && fault->step == index;
    if (faulty) {
      switch (fault->kind) {
        case ProgramFault::kSkip:
          return true;
        case ProgramFault::kDie:
          ended_early_ = true;
          return false;
        case ProgramFault::kAbort:
          group->abort("a random moment");
          ended_early_ = true;
          return false;
        case ProgramFault::kExtra:
          pending_.push_back({group->barrier(), nullptr});
          break;
        case ProgramFault::kWrongCall:
          collective(*group, fault->wrong, step.sync);
          return true;
      }
    }
    switch (step.kind) {
      case ProgramStep::kCollective:
        if (group) collective(*group, step.one, step.sync);
        break;
      case ProgramStep::kBarrier:
        if (group) {
          CallOptions options;
          options.sync = step.sync;
          pending_.push_back({group->barrier(options), nullptr});
        }
        break;
      case ProgramStep::kMessage:
        if (group) message(*group, step);
        break;
      case ProgramStep::kPost:
        if (group) post(*group);
        break;
      case ProgramStep::kDrain:
        drain();
        break;
    }
    return true;
  }

  void collective(ProcessGroup& group, const testing::CollectiveCase& one,
                  bool sync) {
    runs_.push_back(std::make_unique<CaseRun>(one, group.rank(), group.size()));
    CaseRun* const run = runs_.back().get();
    CallOptions options;
    options.sync = sync;
    auto work = run->start(group, std::move(options));
    pending_.push_back({work, [run] { return run->problem(); }});
    if (sync) check(pending_.back());
  }

  void message(ProcessGroup& group, const ProgramStep& step) {
    const testing::Pattern pattern(step.one.dtype, ReduceOp::kSum, group.size(),
                                   step.one.seed);
    CallOptions options;
    options.sync = step.sync;
    const auto memory_for = [&] {
      memory_.push_back(std::make_unique<testing::FencedMemory>(
          step.one.count, step.one.dtype));
      return memory_.back()->buffer();
    };
    if (group.rank() == step.from) {
      const Buffer buffer = memory_for();
      pattern.fill_input(buffer, step.from);
      pending_.push_back(
          {group.send(buffer, step.to, step.tag, options), nullptr});
    }
    if (group.rank() == step.to) {
      const Buffer buffer = memory_for();
      auto work = step.any_source
                      ? group.recv_any(buffer, step.tag, options)
                      : group.recv(buffer, step.from, step.tag, options);
      pending_.push_back({work, [=] {
                            EXPECT_EQ(work->source_rank(), step.from);
                            return pattern.input_problem(buffer, step.from);
                          }});
    }
  }

  // All collectives launched on this lane before it are complete by then.
  void post(ProcessGroup& group) {
    auto last = group.barrier();
    pending_.push_back({last, nullptr});
    auto in_order = std::make_shared<std::atomic<bool>>(false);
    auto work = group.post([=] { *in_order = last->is_completed(); });
    pending_.push_back({work, [=]() -> std::string {
                          return *in_order ? "" : "a posted step was early";
                        }});
  }

  static void check(const Pending& pending) {
    pending.work->wait();
    if (!pending.problem) return;
    const std::string problem = pending.problem();
    EXPECT_EQ(problem, "");
  }

  void drain() {
    if (ended_early_) return;
    for (const Pending& one : pending_) check(one);
    pending_.clear();
  }

  const Program& program_;
  const int rank_;
  std::vector<std::unique_ptr<CaseRun>> runs_;
  std::vector<std::unique_ptr<testing::FencedMemory>> memory_;
  std::vector<Pending> pending_;
  std::vector<std::shared_ptr<ProcessGroup>> groups_;
  bool ended_early_ = false;
  Ending ending_;
  std::string text_;
};

bool is_allowed(ErrorKind kind) {
  return kind == ErrorKind::kMismatch || kind == ErrorKind::kPeer ||
         kind == ErrorKind::kTimeout || kind == ErrorKind::kAborted;
}

// Whether nothing but an error may have come out of it on world rank `rank`.
bool must_fail(const Program& program, int rank) {
  if (!program.fault) return false;
  const ProgramFault& fault = *program.fault;
  const ProgramStep& step = program.steps[fault.step];
  const auto& members =
      program.members[step.group][static_cast<size_t>(fault.rank)];
  const bool concerned =
      std::find(members.begin(), members.end(), rank) != members.end();
  switch (fault.kind) {
    case ProgramFault::kWrongCall:
      return concerned;
    case ProgramFault::kSkip:
    case ProgramFault::kDie:
    case ProgramFault::kAbort:
      return concerned && rank != fault.rank;
    case ProgramFault::kExtra:
      return rank == fault.rank;
  }
  return false;
}

void run_program(const testing::BackendKind& kind, const Program& program) {
  SCOPED_TRACE(describe(program));
  GroupOptions options;
  // A fault may make two ranks wait for each other, on two groups.
  options.timeout = program.fault ? 500ms : 60s;
  testing::RankTeam team(kind, program.ranks, options);
  std::vector<Ending> endings(static_cast<size_t>(program.ranks));
  std::vector<std::string> texts(endings.size());
  team.run([&](ProcessGroup& group) {
    const auto rank = static_cast<size_t>(group.rank());
    Player player(program, team.take_group(group.rank()));
    endings[rank] = player.play();
    texts[rank] = player.error_text();
  });
  for (int rank = 0; rank < program.ranks; ++rank) {
    if (!team.is_here(rank)) continue;
    const Ending& ending = endings[static_cast<size_t>(rank)];
    const std::string& text = texts[static_cast<size_t>(rank)];
    if (!program.fault) {
      EXPECT_EQ(text, "");
    } else if (ending) {
      EXPECT_TRUE(is_allowed(*ending)) << text;
    } else {
      EXPECT_FALSE(must_fail(program, rank))
          << "rank " << rank << " noticed nothing";
    }
  }
}

class RandomPrograms : public ::testing::TestWithParam<testing::BackendKind> {};

TEST_P(RandomPrograms, EndWithTheRightValuesOrTheRightErrors) {
  if (const auto seed = env::integer("LOCKSTEP_SEED")) {
    return run_program(GetParam(), Program(static_cast<uint32_t>(*seed)));
  }
  const uint32_t seeds = testing::full_run() ? 2000 : 100;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    run_program(GetParam(), Program(seed));
    if (HasFailure()) {
      FAIL() << "stopped at LOCKSTEP_SEED=" << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RandomPrograms,
                         ::testing::ValuesIn(backend_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace lockstep

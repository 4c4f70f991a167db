// SPDX-License-Identifier: Apache-2.0
// A test of what tests lean on: a team that hid a failure would make all of
// them worthless.
#include "support/rank_team.h"

#include <atomic>

#include <gmock/gmock.h>

#include "lockstep/backend/local.h"
#include "support/collective_case.h"
#include "support/faulty_backend.h"
#include "support/message_of.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

BackendKind local_kind() {
  return {"local", [](int size, const GroupOptions& options) {
            return make_local_groups(size, options);
          }};
}

// Local groups in which rank 1 has `fault`.
BackendKind faulty_kind(const Fault& fault) {
  return {"faulty", [fault](int size, const GroupOptions& options) {
            const auto factory = make_faulty_factory(
                make_local_factory(), [fault](const GroupPlace& place) {
                  return place.rank == 1 ? &fault : nullptr;
                });
            Groups groups;
            for (int rank = 0; rank < size; ++rank) {
              groups.push_back(
                  ProcessGroup::make(factory, nullptr, rank, size, options));
            }
            return groups;
          }};
}

TEST(RankTeam, RunsEveryRankAsOftenAsAsked) {
  RankTeam team(local_kind(), 4);
  std::atomic<int> sum{0};
  for (int i = 0; i < 10; ++i) {
    team.run([&](ProcessGroup& group) { sum += group.rank() + 1; });
  }
  EXPECT_EQ(sum, 100);
}

TEST(RankTeam, NamesTheRankThatFailedAndEndsTheOthers) {
  RankTeam team(local_kind(), 3);
  const auto text = message_of<RankFailure>([&] {
    team.run([](ProcessGroup& group) {
      if (group.rank() == 1) throw std::runtime_error("no luck");
      group.barrier()->wait();  // which rank 1 never comes to
    });
  });
  EXPECT_EQ(text, "on rank 1 of 3: no luck");
}

TEST(RankTeam, NamesWhoHangs) {
  RankTeam team(local_kind(), 3);
  const auto text = message_of<RankFailure>([&] {
    team.run(
        [](ProcessGroup& group) {
          if (group.rank() != 0) group.barrier()->wait();
        },
        1s);
  });
  EXPECT_THAT(text, HasSubstr("still runs rank 1, rank 2"));
}

TEST(FaultyBackend, FailsAtTheGivenOperation) {
  Fault fault;
  fault.at = 2;
  fault.error = std::make_exception_ptr(SystemError("broken cable", EIO));
  run_ranks(faulty_kind(fault), 3, [](ProcessGroup& group) {
    group.barrier()->wait();
    group.barrier()->wait();
    try {
      group.barrier()->wait();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("broken cable"));
      EXPECT_EQ(error.kind(),
                group.rank() == 1 ? ErrorKind::kSystem : ErrorKind::kAborted);
    }
  });
}

TEST(FaultyBackend, DelaysWithoutHarm) {
  Fault fault;
  fault.kind = Fault::kDelay;
  fault.delay = 5ms;
  run_ranks(faulty_kind(fault), 2, [](ProcessGroup& group) {
    for (int i = 0; i < 5; ++i) group.barrier()->wait();
  });
}

TEST(FaultyBackend, HangsUntilItIsInterrupted) {
  Fault fault;
  fault.kind = Fault::kHang;
  fault.at = 1;
  GroupOptions options;
  options.timeout = 100ms;
  RankTeam team(faulty_kind(fault), 2, options);
  team.run([&](ProcessGroup& group) {
    group.barrier()->wait();
    if (group.rank() == 0) {
      EXPECT_THAT(message_of<TimeoutError>([&] { group.barrier()->wait(); }),
                  HasSubstr("rank 1"));
      team.group(1).abort("found hanging");
    } else {
      message_of<AbortedError>([&] { group.barrier()->wait(); });
    }
  });
}

// The reference finds what is wrong: a changed element, a write beyond the end.
TEST(Pattern, FindsAWrongElementAnywhere) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const Pattern pattern(dtype, ReduceOp::kSum, 4, 3);
    FencedMemory memory(1000, dtype);
    const Buffer buffer = memory.buffer();
    pattern.fill_input(buffer, 2, 17);
    EXPECT_EQ(pattern.input_problem(buffer, 2, 17), "");
    EXPECT_NE(pattern.input_problem(buffer, 1, 17), "");
    EXPECT_NE(pattern.input_problem(buffer, 2, 16), "");
    for (const size_t at : {size_t{0}, size_t{500}, size_t{999}}) {
      put(buffer, at, static_cast<int64_t>(number_at(buffer, at)) + 1);
      EXPECT_THAT(pattern.input_problem(buffer, 2, 17),
                  HasSubstr("element " + std::to_string(at) + " of 1000"));
      pattern.fill_input(buffer, 2, 17);
    }
    EXPECT_TRUE(memory.fences_hold());
    EXPECT_FALSE(memory.is_untouched());
    static_cast<std::byte*>(buffer.data)[buffer.bytes()] = std::byte{1};
    EXPECT_FALSE(memory.fences_hold());
  }
}

TEST(CaseRun, SeesThatNothingWasComputed) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    for (const bool in_place : {false, true}) {
      CollectiveCase one;
      one.collective = static_cast<Collective>(c);
      one.count = 100;
      one.in_place = in_place;
      one.root = 1;
      CaseRun run(one, 0, 3);  // never started
      EXPECT_TRUE(run.is_untouched()) << describe(one);
      const bool has_nothing_to_do = one.collective == Collective::kReduce ||
                                     one.collective == Collective::kGather;
      EXPECT_EQ(run.problem().empty(), has_nothing_to_do) << describe(one);
    }
  }
}

}  // namespace
}  // namespace lockstep::testing

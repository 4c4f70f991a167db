// SPDX-License-Identifier: Apache-2.0
// Every collective with every operation, type, size and way to call it, against
// a reference. An ordinary run takes a selection in which every pair of
// settings occurs; a full run takes all.
#include <unistd.h>

#include <array>
#include <atomic>
#include <iterator>
#include <tuple>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "contract/backend_kinds.h"
#include "support/collective_case.h"
#include "support/pairwise.h"
#include "support/support.h"

namespace lockstep {
namespace {

using testing::CaseRun;
using testing::Collective;
using testing::CollectiveCase;
using testing::Row;

enum class Mode { kSync, kAsync, kManyInFlight };
enum class Where { kGroup, kSplit, kDuplicate };
// Whose buffers are registered memory.
enum class Registered { kNobodys, kEverybodys, kSome };

constexpr std::array<int, 5> kSizes = {1, 2, 3, 4, 8};

// The factors of the matrix, and what their levels stand for.
enum Factor : size_t {
  kCollective,
  kReduce,
  kDType,
  kCount,
  kSize,
  kMode,
  kInPlace,
  kWhere,
  kRoot,
  kParts,
  kMemory,
};
constexpr int kCountLevels = 7;
const std::vector<int> kLevels = {testing::kCollectiveCount,
                                  ReduceOp::kKindCount,
                                  kDTypeCount,
                                  kCountLevels,
                                  static_cast<int>(kSizes.size()),
                                  3,
                                  2,
                                  3,
                                  2,
                                  2,
                                  3};

template <class Enum>
Enum level(const Row& row, Factor factor) {
  return static_cast<Enum>(row[factor]);
}

bool allowed(size_t a, int a_level, size_t b, int b_level) {
  if (a != kReduce || b != kDType) return true;
  return is_defined(static_cast<ReduceOp::Kind>(a_level),
                    static_cast<DType>(b_level));
}

size_t count_of(const Row& row, int size) {
  const auto collective = level<Collective>(row, kCollective);
  const bool has_parts = collective != Collective::kAllReduce &&
                         collective != Collective::kBroadcast &&
                         collective != Collective::kReduce;
  const size_t width = size_of(level<DType>(row, kDType));
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)) / width;
  // In all, whatever the number of parts.
  const size_t large = (size_t{3} << 20) / width + 3;
  const std::array<size_t, kCountLevels> counts = {
      0,
      1,
      7,
      page - 1,
      page + 1,
      5000,
      has_parts ? large / static_cast<size_t>(size) : large};
  return counts[static_cast<size_t>(row[kCount])];
}

CollectiveCase case_of(const Row& row, int size, uint32_t seed) {
  CollectiveCase one;
  one.collective = level<Collective>(row, kCollective);
  one.reduce = level<ReduceOp::Kind>(row, kReduce);
  one.dtype = level<DType>(row, kDType);
  one.count = count_of(row, size);
  one.in_place = row[kInPlace] != 0;
  one.unequal = row[kParts] != 0;
  one.root = row[kRoot] == 0 ? 0 : size - 1;
  one.seed = seed;
  return one;
}

// Rows that differ only in what their collective does not look at.
bool is_redundant(const Row& row) {
  const auto collective = level<Collective>(row, kCollective);
  const bool coalesced = collective >= Collective::kAllReduceCoalesced;
  const bool rooted = collective == Collective::kBroadcast ||
                      collective == Collective::kReduce ||
                      collective == Collective::kGather ||
                      collective == Collective::kScatter;
  const bool has_lists = !coalesced && collective >= Collective::kAllGather;
  const bool has_in_place = !coalesced &&
                            collective != Collective::kBroadcast &&
                            collective != Collective::kAllToAll;
  return (!testing::has_reduction(collective) && row[kReduce] != 0) ||
         (!rooted && row[kRoot] != 0) || (!has_lists && row[kParts] != 0) ||
         (!has_in_place && row[kInPlace] != 0);
}

std::vector<Row> rows_for(int size_level, Where where) {
  std::vector<Row> rows;
  const auto take = [&](const Row& row) {
    if (row[kSize] == size_level && level<Where>(row, kWhere) == where) {
      rows.push_back(row);
    }
  };
  if (testing::full_run()) {
    std::vector<int> levels = kLevels;
    levels[kSize] = size_level + 1;
    testing::for_each_row(levels, allowed, [&](const Row& row) {
      if (!is_redundant(row)) take(row);
    });
  } else {
    for (const Row& row : testing::pairwise(kLevels, allowed)) take(row);
  }
  return rows;
}

// Enough for all that is in flight at once.
constexpr size_t kPoolBytes = size_t{24} << 20;

// Runs the case of `row` on one rank and returns what was wrong.
std::string run_row(ProcessGroup& group, const Row& row, uint32_t seed,
                    testing::MemoryPool& registered) {
  const auto memory = level<Registered>(row, kMemory);
  const bool is_registered =
      memory == Registered::kEverybodys ||
      (memory == Registered::kSome && group.rank() % 2 == 1);
  registered.clear();
  const auto mode = level<Mode>(row, kMode);
  const int in_flight = mode == Mode::kManyInFlight ? 3 : 1;
  std::vector<std::unique_ptr<CaseRun>> runs;
  std::vector<std::shared_ptr<Work>> works;
  for (int i = 0; i < in_flight; ++i) {
    const auto one =
        case_of(row, group.size(), seed + static_cast<uint32_t>(i));
    runs.push_back(
        std::make_unique<CaseRun>(one, group.rank(), group.size(),
                                  is_registered ? &registered : nullptr));
    CallOptions options;
    options.sync = mode == Mode::kSync;
    works.push_back(runs.back()->start(group, std::move(options)));
  }
  std::string problem;
  for (size_t i = 0; i < works.size(); ++i) {
    works[i]->wait();
    if (problem.empty()) problem = runs[i]->problem();
  }
  return problem;
}

// The group a row is to run on; a split one leaves the last rank out and turns
// the others around.
std::shared_ptr<ProcessGroup> group_for(ProcessGroup& world, Where where) {
  if (where == Where::kGroup) return world.shared_from_this();
  if (where == Where::kDuplicate) return world.duplicate("copy");
  const bool stays = world.rank() + 1 < world.size();
  return world.split(stays ? 7 : ProcessGroup::kNoGroup, -world.rank());
}

void run_rows(const testing::BackendKind& kind, int size, Where where,
              const std::vector<Row>& rows) {
  std::atomic<int> problems{0};
  testing::RankTeam team(kind, where == Where::kSplit ? size + 1 : size);
  team.run(
      [&](ProcessGroup& world) {
        const auto group = group_for(world, where);
        if (!group) return;
        const RegisteredMemory memory = group->allocate(kPoolBytes);
        testing::MemoryPool pool({memory.data(), memory.size()});
        uint32_t seed = 0;
        for (const Row& row : rows) {
          seed += 10;
          const std::string problem = run_row(*group, row, seed, pool);
          if (problem.empty() || ++problems > 10) continue;
          ADD_FAILURE() << problem;
        }
      },
      std::chrono::seconds(testing::full_run() ? 1200 : 100));
  EXPECT_EQ(problems, 0);
}

// A backend, and how many ranks a group has.
class BackendMatrix
    : public ::testing::TestWithParam<std::tuple<testing::BackendKind, int>> {};

TEST_P(BackendMatrix, CollectivesComputeWhatTheyShould) {
  const auto& [kind, size] = GetParam();
  const auto at = std::find(kSizes.begin(), kSizes.end(), size);
  const auto size_level = static_cast<int>(std::distance(kSizes.begin(), at));
  size_t cases = 0;
  for (const Where where : {Where::kGroup, Where::kSplit, Where::kDuplicate}) {
    const std::vector<Row> rows = rows_for(size_level, where);
    cases += rows.size();
    run_rows(kind, size, where, rows);
  }
  RecordProperty("cases", static_cast<int>(cases));
}

INSTANTIATE_TEST_SUITE_P(
    Backends, BackendMatrix,
    ::testing::Combine(::testing::ValuesIn(backend_kinds()),
                       ::testing::Values(1, 2, 3, 4, 8)),
    [](const auto& one) {
      return std::get<0>(one.param).name + "With" +
             std::to_string(std::get<1>(one.param));
    });

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "support/pairwise.h"

#include <set>

#include <gtest/gtest.h>

namespace lockstep::testing {
namespace {

using Pair = std::tuple<size_t, int, size_t, int>;

std::set<Pair> pairs_in(const std::vector<Row>& rows) {
  std::set<Pair> pairs;
  for (const Row& row : rows) {
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) {
        pairs.insert({a, row[a], b, row[b]});
      }
    }
  }
  return pairs;
}

std::vector<Row> all_rows(const std::vector<int>& levels,
                          const PairRule& allowed = nullptr) {
  std::vector<Row> rows;
  for_each_row(levels, allowed, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

TEST(Pairwise, CoversEveryPairOfLevels) {
  const std::vector<std::vector<int>> plans = {
      {2, 2}, {3, 3, 3, 3}, {9, 2, 5}, {1, 4, 1}, {11, 9, 10, 7, 5, 3, 2, 3}};
  for (const auto& levels : plans) {
    const auto rows = pairwise(levels);
    size_t expected = 0;
    for (size_t a = 0; a < levels.size(); ++a) {
      for (size_t b = a + 1; b < levels.size(); ++b) {
        expected += static_cast<size_t>(levels[a] * levels[b]);
      }
    }
    EXPECT_EQ(pairs_in(rows).size(), expected);
  }
}

TEST(Pairwise, NeedsFewRows) {
  EXPECT_EQ(pairwise({4, 3}).size(), 12U);        // two factors: the product
  EXPECT_LE(pairwise({3, 3, 3, 3}).size(), 15U);  // 9 at best, of 81
  EXPECT_LE(pairwise({11, 9, 10, 7, 5, 3, 2, 3, 2, 2}).size(), 180U);
}

TEST(Pairwise, LeavesForbiddenPairsOutAndTakesAllOthers) {
  const std::vector<int> levels = {4, 5, 3};
  const PairRule allowed = [](size_t a, int a_level, size_t b, int b_level) {
    return a != 0 || b != 1 || a_level + b_level != 3;
  };
  const auto rows = pairwise(levels, allowed);
  EXPECT_EQ(pairs_in(rows), pairs_in(all_rows(levels, allowed)));
  EXPECT_LT(rows.size(), all_rows(levels, allowed).size());
}

TEST(Pairwise, IsTheSameEveryTime) {
  EXPECT_EQ(pairwise({5, 4, 3, 2}), pairwise({5, 4, 3, 2}));
}

TEST(Matrix, HasEveryRowOnce) {
  const auto rows = all_rows({2, 3, 4});
  EXPECT_EQ(rows.size(), 24U);
  EXPECT_EQ(std::set<Row>(rows.begin(), rows.end()).size(), 24U);
}

}  // namespace
}  // namespace lockstep::testing

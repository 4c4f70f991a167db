// SPDX-License-Identifier: Apache-2.0
#include "support/pairwise.h"

#include <set>
#include <tuple>

namespace lockstep::testing {
namespace {

constexpr int kOpen = -1;

struct Pair {
  size_t a;
  int a_level;
  size_t b;
  int b_level;

  bool operator<(const Pair& other) const {
    return std::tie(a, a_level, b, b_level) <
           std::tie(other.a, other.a_level, other.b, other.b_level);
  }
};

Pair pair_of(size_t a, int a_level, size_t b, int b_level) {
  return a < b ? Pair{a, a_level, b, b_level} : Pair{b, b_level, a, a_level};
}

// Whether factor `factor` of `row` may have `level`, as far as it is filled.
bool fits(const Row& row, size_t factor, int level, const PairRule& allowed) {
  if (!allowed) return true;
  for (size_t other = 0; other < row.size(); ++other) {
    if (other == factor || row[other] == kOpen) continue;
    const Pair pair = pair_of(factor, level, other, row[other]);
    if (!allowed(pair.a, pair.a_level, pair.b, pair.b_level)) return false;
  }
  return true;
}

int count_missing(const Row& row, size_t factor, int level,
                  const std::set<Pair>& missing) {
  int count = 0;
  for (size_t other = 0; other < row.size(); ++other) {
    if (other == factor || row[other] == kOpen) continue;
    count += static_cast<int>(
        missing.count(pair_of(factor, level, other, row[other])));
  }
  return count;
}

// The allowed level that covers most; among equals the first from `start` on,
// so that levels take turns.
int best_level(const Row& row, size_t factor, int levels, int start,
               const std::set<Pair>& missing, const PairRule& allowed) {
  int best = kOpen;
  int most = -1;
  for (int i = 0; i < levels; ++i) {
    const int level = (start + i) % levels;
    if (!fits(row, factor, level, allowed)) continue;
    const int covered = count_missing(row, factor, level, missing);
    if (covered > most) {
      most = covered;
      best = level;
    }
  }
  return best;
}

std::set<Pair> all_pairs(const std::vector<int>& levels,
                         const PairRule& allowed) {
  std::set<Pair> pairs;
  for (size_t a = 0; a < levels.size(); ++a) {
    for (size_t b = a + 1; b < levels.size(); ++b) {
      for (int i = 0; i < levels[a]; ++i) {
        for (int k = 0; k < levels[b]; ++k) {
          if (!allowed || allowed(a, i, b, k)) pairs.insert({a, i, b, k});
        }
      }
    }
  }
  return pairs;
}

}  // namespace

std::vector<Row> pairwise(const std::vector<int>& levels,
                          const PairRule& allowed) {
  std::set<Pair> missing = all_pairs(levels, allowed);
  std::vector<Row> rows;
  while (!missing.empty()) {
    const Pair first = *missing.begin();
    Row row(levels.size(), kOpen);
    row[first.a] = first.a_level;
    row[first.b] = first.b_level;
    for (size_t factor = 0; factor < levels.size(); ++factor) {
      if (row[factor] != kOpen) continue;
      const int start = static_cast<int>(rows.size()) % levels[factor];
      row[factor] =
          best_level(row, factor, levels[factor], start, missing, allowed);
    }
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) {
        missing.erase({a, row[a], b, row[b]});
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void for_each_row(const std::vector<int>& levels, const PairRule& allowed,
                  const std::function<void(const Row&)>& visit) {
  Row row(levels.size(), kOpen);
  const std::function<void(size_t)> fill = [&](size_t factor) {
    if (factor == levels.size()) return visit(row);
    for (int level = 0; level < levels[factor]; ++level) {
      if (!fits(row, factor, level, allowed)) continue;
      row[factor] = level;
      fill(factor + 1);
    }
    row[factor] = kOpen;
  };
  fill(0);
}

}  // namespace lockstep::testing

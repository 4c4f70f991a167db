// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/nearest.h"

#include <algorithm>
#include <numeric>

namespace lockstep::detail {
namespace {

// How many letters must be changed, added or dropped: one row of the usual
// table at a time.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(const std::string& word,
                    const std::vector<std::string>& known, size_t tolerance) {
  std::string best;
  size_t fewest = tolerance;
  for (const std::string& candidate : known) {
    const size_t letters = distance(word, candidate);
    if (letters < fewest || (best.empty() && letters <= tolerance)) {
      best = candidate;
      fewest = letters;
    }
  }
  return best;
}

}  // namespace lockstep::detail

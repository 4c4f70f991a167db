// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace lockstep::testing {

// A row picks one level, counted from 0, of each factor.
using Row = std::vector<int>;

// Whether level `a_level` of factor `a` may stand together with `b_level` of
// factor `b`.
using PairRule =
    std::function<bool(size_t a, int a_level, size_t b, int b_level)>;

// Rows in which every allowed pair of levels of two factors occurs at least
// once: a small selection of a large matrix that still finds whatever two
// settings do to each other. `levels` says how many each factor has. The same
// arguments always give the same rows.
//
// For each row it takes a pair that is still missing and fills in the other
// factors one by one, each with the level that covers most missing pairs.
// Every level must be allowed with some level of each other factor.
std::vector<Row> pairwise(const std::vector<int>& levels,
                          const PairRule& allowed = nullptr);

// Every row of the matrix that has no forbidden pair.
void for_each_row(const std::vector<int>& levels, const PairRule& allowed,
                  const std::function<void(const Row&)>& visit);

}  // namespace lockstep::testing

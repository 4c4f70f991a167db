// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace lockstep::detail {

// The known word nearest to `word` in spelling, for "did you mean": the first
// of the words that need the fewest letters changed, added or dropped. Empty
// when all of them need more than `tolerance`, or none is known.
std::string nearest(const std::string& word,
                    const std::vector<std::string>& known,
                    size_t tolerance = std::numeric_limits<size_t>::max());

}  // namespace lockstep::detail

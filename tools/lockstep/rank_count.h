// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::tool {

// What -n says: a number, or 0 for "auto". Errors: UsageError.
int rank_count_of(const std::string& text);

}  // namespace lockstep::tool

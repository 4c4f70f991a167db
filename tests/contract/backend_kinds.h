// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/backend/local.h"
#include "support/rank_team.h"

namespace lockstep {

// All backends that can be made in this process, ranks being threads.
inline std::vector<testing::BackendKind> backend_kinds() {
  return {{"Local", [](int size, const GroupOptions& options) {
             return make_local_groups(size, options);
           }}};
}

}  // namespace lockstep

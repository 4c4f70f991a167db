// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/backend/init.h"
#include "lockstep/backend/local.h"
#include "lockstep/store/hash_store.h"
#include "support/rank_team.h"

namespace lockstep {

// All backends that can be made in this process, ranks being threads.
inline std::vector<testing::BackendKind> backend_kinds() {
  const auto shm = [](int size, const GroupOptions& options) {
    InitOptions init;
    init.backend = "shm";
    init.store = std::make_shared<HashStore>();
    init.rank = 0;
    init.size = 1;
    init.ranks_in_process = size;
    init.name = options.name;
    init.timeout = options.timeout;
    init.notice_after = options.notice_after;
    return init_ranks(init);
  };
  const auto local = [](int size, const GroupOptions& options) {
    return make_local_groups(size, options);
  };
  return {{"Local", local}, {"Shm", shm}};
}

}  // namespace lockstep

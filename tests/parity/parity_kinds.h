// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

#include "contract/backend_kinds.h"
#include "lockstep/base/env.h"

namespace lockstep {

// How many ranks a process of a job has.
constexpr int kRanksEach = 2;

// The backends on which models are trained, ranks being threads; or, in a job
// of several processes, the one whose ranks are threads of all of them.
inline std::vector<testing::BackendKind> parity_kinds() {
  if (const auto processes = testing::process_kind(kRanksEach)) {
    return {*processes};
  }
  std::vector<testing::BackendKind> kinds;
  for (const auto& kind : backend_kinds()) {
    const bool taken =
        kind.name == "Local" || kind.name == "Shm" || kind.name == "Gloo";
    if (taken) kinds.push_back(kind);
  }
  return kinds;
}

// Which backend that is: 0 local, 1 shm, 2 gloo.
constexpr int kBackendCount = 3;
inline int backend_of(const testing::BackendKind& kind) {
  if (kind.name == "Local") return 0;
  if (kind.name == "Shm") return 1;
  if (kind.name == "Gloo") return 2;
  return env::text("LOCKSTEP_BACKEND") == "gloo" ? 2 : 1;
}

// A hang should end the test, not the patience of who waits for it.
inline GroupOptions parity_options() {
  GroupOptions options;
  options.timeout = std::chrono::seconds(40);
  return options;
}

}  // namespace lockstep

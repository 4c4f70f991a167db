// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <ATen/ATen.h>

#include "lockstep/backend/local.h"
#include "lockstep/tensor/collectives.h"
#include "support/support.h"

namespace lockstep::testing {

// Runs `body` on `size` ranks, as threads; the first exception is thrown here.
inline void on_ranks(int size,
                     const std::function<void(ProcessGroup& group)>& body) {
  GroupOptions options;
  options.timeout = std::chrono::seconds(30);
  auto groups = make_local_groups(size, options);
  run_threads(size, [&](int rank) {
    // A rank that fails leaves, so that the others do not wait for it.
    const auto group = std::move(groups[static_cast<size_t>(rank)]);
    body(*group);
  });
}

}  // namespace lockstep::testing

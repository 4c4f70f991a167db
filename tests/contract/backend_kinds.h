// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/backend/gloo.h"
#include "lockstep/backend/local.h"
#include "lockstep/backend/shm.h"
#include "lockstep/store/hash_store.h"
#include "support/process_kind.h"
#include "support/rank_team.h"

namespace lockstep {

// Groups of a backend whose ranks find each other in a store.
inline testing::Groups groups_in_store(const BackendFactory& factory, int size,
                                       const GroupOptions& options) {
  const auto store = std::make_shared<HashStore>();
  testing::Groups groups(static_cast<size_t>(size));
  std::vector<Thread> threads;
  threads.reserve(groups.size());
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back("make", [&, rank] {
      groups[static_cast<size_t>(rank)] = ProcessGroup::make(
          testing::patient(factory), store, rank, size, options);
    });
  }
  threads.clear();
  return groups;
}

// All backends that can be made in this process, ranks being threads; or, when
// it was started as one of a job, the one whose ranks are its processes.
inline std::vector<testing::BackendKind> backend_kinds() {
  if (const auto processes = testing::process_kind()) return {*processes};
  const auto local = [](int size, const GroupOptions& options) {
    return make_local_groups(size, options);
  };
  const auto shm = [](int size, const GroupOptions& options) {
    return groups_in_store(make_shm_factory(), size, options);
  };
  // Everything goes through the stages, in as many windows as there can be.
  const auto tiny = [](int size, const GroupOptions& options) {
    ShmOptions tuning;
    tuning.one_phase_bytes = 0;
    tuning.window_bytes = 4096;
    return groups_in_store(make_shm_factory(tuning), size, options);
  };
  const auto gloo = [](int size, const GroupOptions& options) {
    GlooOptions loopback;
    loopback.devices = {gloo_device_of_host("127.0.0.1")};
    return groups_in_store(make_gloo_factory(loopback), size, options);
  };
  // All data go through Gloo, by two meshes, reductions in many windows.
  const auto gloo_only = [](int size, const GroupOptions& options) {
    GlooOptions tuning;
    tuning.devices = {gloo_device_of_host("127.0.0.1")};
    tuning.threads = 2;
    tuning.algorithm = GlooAlgorithm::kDirect;
    tuning.short_bytes = 0;
    tuning.window_bytes = 1024;
    return groups_in_store(make_gloo_factory(tuning), size, options);
  };
  return {{"Local", local},
          {"Shm", shm},
          {"ShmTinyWindows", tiny},
          {"Gloo", gloo},
          {"GlooOnly", gloo_only}};
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "lockstep/comm/process_group.h"

namespace lockstep {

// What the `shm` backend may be told; rank 0's word counts for all. The
// defaults come from a table with reasons, in docs/shm.md;
// LOCKSTEP_SHM_ONE_PHASE_BYTES and LOCKSTEP_SHM_WINDOW_BYTES override it
// without a change to the program.
struct ShmOptions {
  // Up to this size an operation copies and meets once; 16 KB at most.
  std::optional<size_t> one_phase_bytes;
  // Larger operations on memory that is not registered go through shared pages
  // in windows of this size; a multiple of 64, and at least 64 per rank.
  std::optional<size_t> window_bytes;
};

// The `shm` backend: ranks are processes of one host, or threads, or both. They
// meet in anonymous pages that all of them map. Registered memory is reduced
// and copied in place, each byte read once and written once; other memory goes
// through the shared pages in windows that stay in the cache.
//
// The ranks find each other through the store of the group. Nothing of it has a
// name in any file system, so nothing can be left behind. When a rank's process
// ends, all others hear so at once.
//
// Errors: making a group throws UsageError on all ranks when they do not share
//         a host, SystemError when there is not enough memory. After a failure
//         the registered memory of the group is dead: see RegisteredMemory.
BackendFactory make_shm_factory(const ShmOptions& options = {});

}  // namespace lockstep

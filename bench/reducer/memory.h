// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lockstep::bench {

// Bytes, of two ranks together.
struct MemoryFigures {
  size_t parameters = 0;
  size_t counted = 0;  // gradients and buckets; what they share counts once
  size_t grown = 0;    // by the Reducer and some steps, in physical memory
};

// Two ranks, as threads, train a model of 105 MB each on `backend`, "local" or
// "shm".
MemoryFigures measure_memory(const std::string& backend, bool as_views);

}  // namespace lockstep::bench

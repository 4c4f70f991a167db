// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "lockstep/comm/process_group.h"

namespace lockstep::testing {

// Keeps libtorch on the calling thread: ranks are many, and splitting a sum
// would change its last digits.
inline void use_one_thread() { at::set_num_threads(1); }

// The same bits have the same hash.
inline int64_t hash_of(const std::vector<at::Tensor>& tensors) {
  uint64_t hash = 14695981039346656037U;
  const auto add = [&](unsigned char byte) {
    hash = (hash ^ byte) * 1099511628211U;
  };
  for (const at::Tensor& tensor : tensors) {
    add(tensor.defined() ? 1 : 0);
    if (!tensor.defined()) continue;
    const at::Tensor flat = tensor.contiguous();
    const auto* const bytes =
        static_cast<const unsigned char*>(flat.data_ptr());
    std::for_each(bytes, bytes + flat.nbytes(), add);
  }
  return static_cast<int64_t>(hash);
}

// Whether all ranks have the same bits. A collective.
inline bool all_agree(ProcessGroup& group,
                      const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> mine = {hash_of(tensors)};
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  group.all_gather(buffer_of(mine), buffer_of(all))->wait();
  return std::count(all.begin(), all.end(), mine[0]) == group.size();
}

}  // namespace lockstep::testing

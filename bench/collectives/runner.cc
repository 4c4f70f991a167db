// SPDX-License-Identifier: Apache-2.0
#include "collectives/runner.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace lockstep::bench {

std::shared_ptr<float> Runner::allocate(size_t count, bool /*registered*/) {
  constexpr size_t kPage = 4096;
  const size_t bytes = (count * sizeof(float) + kPage - 1) / kPage * kPage;
  std::shared_ptr<float> memory(
      static_cast<float*>(std::aligned_alloc(kPage, bytes)), std::free);
  if (!memory) throw std::bad_alloc();
  std::fill_n(memory.get(), count, 0.F);
  return memory;
}

void Runner::launch(float* data, size_t count,
                    const std::function<void()>& meanwhile) {
  meanwhile();
  all_reduce(data, count);
}

}  // namespace lockstep::bench

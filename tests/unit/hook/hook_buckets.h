// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/hook/grad_bucket.h"

namespace lockstep::testing {

// A bucket without a Reducer: a parameter index and its number of elements for
// each member; the buffer has zeros.
inline GradBucket make_bucket(
    size_t index, size_t count,
    const std::vector<std::pair<size_t, int64_t>>& lengths) {
  int64_t total = 0;
  for (const auto& [parameter, length] : lengths) total += length;
  const at::Tensor buffer = at::zeros({total});
  auto contents = std::make_shared<GradBucket::Contents>();
  int64_t offset = 0;
  for (const auto& [parameter, length] : lengths) {
    contents->members.push_back({parameter, offset, length});
    contents->gradients.push_back(buffer.narrow(0, offset, length));
    contents->parameters.push_back(at::zeros({length}));
    offset += length;
  }
  return {index, count, buffer, std::move(contents)};
}

}  // namespace lockstep::testing

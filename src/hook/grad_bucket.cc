// SPDX-License-Identifier: Apache-2.0
#include "lockstep/hook/grad_bucket.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

std::vector<at::Tensor> GradBucket::gradients_of(
    const at::Tensor& result) const {
  if (gradients().empty()) return {result};
  const Member& last = members().back();
  LOCKSTEP_CHECK(
      result.defined() && result.is_contiguous() &&
          result.numel() == last.offset + last.length,
      UsageError,
      "bucket {} has {} elements; a result is a tensor with as many, "
      "in one piece",
      index_, last.offset + last.length);
  const at::Tensor flat = result.view({-1});
  std::vector<at::Tensor> views;
  for (size_t i = 0; i < members().size(); ++i) {
    views.push_back(
        detail::slice_like(flat, members()[i].offset, parameters()[i]));
  }
  return views;
}

bool GradBucket::is_skipped() const {
  return !used_.empty() && std::none_of(used_.begin(), used_.end(),
                                        [](bool used) { return used; });
}

namespace detail {

at::Tensor slice_like(const at::Tensor& flat, int64_t offset,
                      const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense()) {
    return flat
        .as_strided(parameter.sizes(), parameter.strides(),
                    flat.storage_offset() + offset)
        .variable_data();
  }
  return flat.narrow(0, offset, parameter.numel())
      .view(parameter.sizes())
      .variable_data();
}

}  // namespace detail
}  // namespace lockstep

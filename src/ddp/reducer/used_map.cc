// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/used_map.h"

#include <utility>

#include <ATen/ops/zeros.h>

namespace lockstep::detail {

UsedMap::UsedMap(size_t parameters)
    : local_(at::zeros({static_cast<int64_t>(parameters)}, at::kInt)) {}

at::Tensor UsedMap::take() {
  if (!is_summed_) return {};
  at::Tensor taken = local_.clone();
  local_.zero_();
  return taken;
}

void UsedMap::reduce(ProcessGroup& group, at::Tensor taken) noexcept {
  try {
    if (pending_) pending_->wait();
    global_ = std::move(taken);
    pending_ = all_reduce(group, global_);
  } catch (...) {
    error_ = std::current_exception();
  }
}

void UsedMap::check() const {
  if (error_) std::rethrow_exception(error_);
}

bool UsedMap::is_used_anywhere(size_t parameter) const {
  check();
  if (!pending_) return true;
  pending_->wait();
  return static_cast<const int32_t*>(global_.data_ptr())[parameter] > 0;
}

void UsedMap::reset() {
  pending_ = nullptr;
  error_ = nullptr;
  local_.zero_();
}

}  // namespace lockstep::detail

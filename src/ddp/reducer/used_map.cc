// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/used_map.h"

#include <utility>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace lockstep::detail {

UsedMap::UsedMap(size_t parameters)
    : local_(at::zeros({static_cast<int64_t>(parameters)}, at::kInt)) {}

std::vector<bool> UsedMap::agree(ProcessGroup& group,
                                 const std::vector<size_t>& unused) {
  const at::Tensor used = at::ones({local_.numel()}, at::kInt);
  auto* words = static_cast<int32_t*>(used.data_ptr());
  for (const size_t parameter : unused) {
    // The parameter may have been used before, inside of no_sync().
    words[parameter] = is_marked(parameter) ? 1 : 0;
  }
  CallOptions now;
  now.sync = true;
  all_reduce(group, used, ReduceOp::kMax, now);
  return std::vector<bool>(words, words + used.numel());
}

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

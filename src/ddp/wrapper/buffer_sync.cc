// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/buffer_sync.h"

#include <cstring>
#include <numeric>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

namespace lockstep::detail {
namespace {

bool is_alike(const at::Tensor& now, const at::Tensor& before) {
  return before.defined() && now.scalar_type() == before.scalar_type() &&
         now.sizes() == before.sizes() && now.strides() == before.strides();
}

bool is_same(const at::Tensor& now, const at::Tensor& before) {
  return is_alike(now, before) && now.is_non_overlapping_and_dense() &&
         (now.nbytes() == 0 ||
          std::memcmp(now.data_ptr(), before.data_ptr(), now.nbytes()) == 0);
}

std::vector<size_t> all_of(size_t count) {
  std::vector<size_t> indices(count);
  std::iota(indices.begin(), indices.end(), size_t{0});
  return indices;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The tensor to write to. autograd refuses a backward when a tensor that it
// saved has changed since, and batch normalisation saves its running values
// without using them. They are written without autograd's knowledge, as in
// batch normalisation's own forward, so that several forwards may come before a
// backward.
at::Tensor target_of(const std::string& name, const at::Tensor& buffer) {
  const bool is_running =
      ends_with(name, "running_mean") || ends_with(name, "running_var");
  return is_running ? buffer.variable_data() : buffer;
}

}  // namespace

void BufferSync::send_all(ProcessGroup& group, const NamedTensors& buffers) {
  forget();
  before_forward(group, buffers);
}

void BufferSync::before_forward(ProcessGroup& group,
                                const NamedTensors& buffers) {
  const at::NoGradGuard no_grad;
  buffers_.clear();
  targets_.clear();
  for (const auto& [name, buffer] : buffers) {
    buffers_.push_back(buffer);
    targets_.push_back(target_of(name, buffer));
  }
  const bool agreed = flags_.defined() &&
                      flags_.numel() == static_cast<int64_t>(buffers.size());
  if (!agreed) {
    snapshots_.assign(buffers_.size(), at::Tensor());
    return send(group, all_of(buffers_.size()));
  }
  if (agreement_) agreement_->wait();
  agreement_ = nullptr;
  const auto* flags = static_cast<const uint8_t*>(flags_.data_ptr());
  std::vector<size_t> changed;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (flags[i] != 0) changed.push_back(i);
  }
  send(group, changed);
}

void BufferSync::send(ProcessGroup& group, const std::vector<size_t>& which) {
  if (which.empty()) return;
  std::vector<at::Tensor> sent;
  sent.reserve(which.size());
  for (const size_t i : which) sent.push_back(targets_[i]);
  broadcast_coalesced(group, sent)->wait();
  for (const size_t i : which) {
    at::Tensor& snapshot = snapshots_[i];
    if (is_alike(buffers_[i], snapshot)) {
      snapshot.copy_(buffers_[i]);
    } else {
      snapshot = buffers_[i].clone();
    }
  }
}

void BufferSync::tell_changes(ProcessGroup& group) {
  if (buffers_.empty()) return;
  if (agreement_) agreement_->wait();  // no forward has waited for the last one
  flags_ = at::zeros({static_cast<int64_t>(buffers_.size())}, at::kByte);
  auto* flags = static_cast<uint8_t*>(flags_.data_ptr());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    flags[i] = is_same(buffers_[i], snapshots_[i]) ? 0 : 1;
  }
  agreement_ = all_reduce(group, flags_, ReduceOp::kMax);
}

void BufferSync::forget() {
  flags_.reset();
  agreement_ = nullptr;
}

}  // namespace lockstep::detail

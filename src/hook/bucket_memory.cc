// SPDX-License-Identifier: Apache-2.0
#include "hook/bucket_memory.h"

#include <algorithm>

#include <ATen/ops/zeros_like.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

bool are_equal(const std::vector<GradBucket::Member>& a,
               const std::vector<GradBucket::Member>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) {
                      return one.index == other.index &&
                             one.offset == other.offset &&
                             one.length == other.length;
                    });
}

}  // namespace

at::Tensor BucketMemory::of(const GradBucket& bucket) {
  const auto found = flats_.find(bucket.index());
  if (found != flats_.end() &&
      are_equal(found->second.members, bucket.members())) {
    return found->second.numbers;
  }
  if (found != flats_.end() || has_any_of(bucket)) take_apart();
  Flat flat{bucket.members(), at::zeros_like(bucket.buffer())};
  for (const GradBucket::Member& member : flat.members) {
    const auto piece = pieces_.find(member.index);
    if (piece == pieces_.end()) continue;
    LOCKSTEP_CHECK(piece->second.numel() == member.length, UsageError,
                   "a hook keeps {} numbers for parameter {}, which has {} "
                   "elements; was its state loaded from another model?",
                   piece->second.numel(), member.index, member.length);
    flat.numbers.narrow(0, member.offset, member.length).copy_(piece->second);
    pieces_.erase(piece);
  }
  return flats_.emplace(bucket.index(), std::move(flat)).first->second.numbers;
}

bool BucketMemory::has_any_of(const GradBucket& bucket) const {
  for (const auto& [index, flat] : flats_) {
    for (const GradBucket::Member& kept : flat.members) {
      for (const GradBucket::Member& member : bucket.members()) {
        if (kept.index == member.index) return true;
      }
    }
  }
  return false;
}

void BucketMemory::take_apart() {
  for (const auto& [index, flat] : flats_) {
    for (const GradBucket::Member& member : flat.members) {
      pieces_[member.index] =
          flat.numbers.narrow(0, member.offset, member.length);
    }
  }
  flats_.clear();
}

std::map<size_t, at::Tensor> BucketMemory::save() const {
  std::map<size_t, at::Tensor> copies;
  for (const auto& [index, piece] : pieces_) copies[index] = piece.clone();
  for (const auto& [index, flat] : flats_) {
    for (const GradBucket::Member& member : flat.members) {
      copies[member.index] =
          flat.numbers.narrow(0, member.offset, member.length).clone();
    }
  }
  return copies;
}

void BucketMemory::load(const std::map<size_t, at::Tensor>& pieces) {
  clear();
  for (const auto& [index, piece] : pieces) {
    pieces_[index] = piece.reshape({-1}).clone();
  }
}

void BucketMemory::clear() {
  flats_.clear();
  pieces_.clear();
}

}  // namespace lockstep::detail

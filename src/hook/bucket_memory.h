// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/hook/grad_bucket.h"

namespace lockstep::detail {

// A number for each element of the gradients that a hook keeps from step to
// step, such as what compression has left out so far. The numbers lie as the
// gradients lie in their bucket; when buckets are rebuilt they move with their
// parameters.
//
// Threads: of() and the others at hook time, one thread at a time. The tensors
//          may be changed by queued steps until the end of backward.
class BucketMemory {
 public:
  // The numbers of a dense bucket: a flat tensor like its buffer, zeros at
  // first.
  at::Tensor of(const GradBucket& bucket);

  // Copies by parameter index, for checkpoints; and back. What was kept before
  // is forgotten.
  std::map<size_t, at::Tensor> save() const;
  void load(const std::map<size_t, at::Tensor>& pieces);

  void clear();

 private:
  struct Flat {
    std::vector<GradBucket::Member> members;
    at::Tensor numbers;
  };

  bool has_any_of(const GradBucket& bucket) const;  // in flats_
  // Leaves all numbers in pieces_, whose tensors share the memory of the flats.
  void take_apart();

  std::map<size_t, Flat> flats_;         // by bucket
  std::map<size_t, at::Tensor> pieces_;  // by parameter: not in a flat yet
};

}  // namespace lockstep::detail

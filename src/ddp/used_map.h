// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

// Which parameters had a gradient on any rank since the last reduction: the
// others keep theirs as it was.
//
// Threads: guarded by the Reducer.
class UsedMap {
 public:
  explicit UsedMap(size_t parameters);

  void mark(size_t parameter) { words()[parameter] = 1; }
  const at::Tensor& local() const { return local_; }

  // Launches the sum over the ranks, and starts a new count.
  void reduce(ProcessGroup& group);
  // Waits for that sum. Only who meets a parameter that it did not use itself
  // needs to ask.
  bool is_used_anywhere(size_t parameter) const;
  // After a failure.
  void reset();

 private:
  int32_t* words() { return static_cast<int32_t*>(local_.data_ptr()); }

  at::Tensor local_;
  at::Tensor global_;
  WorkHandle pending_;  // what fills global_
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

// Which parameters had a gradient on any rank since the last reduction: the
// others keep theirs as it was.
//
// Threads: marks are guarded by the Reducer; the sum belongs to the thread that
//          ends backward.
class UsedMap {
 public:
  explicit UsedMap(size_t parameters);

  void mark(size_t parameter) { words()[parameter] = 1; }
  bool is_marked(size_t parameter) { return words()[parameter] != 0; }
  const at::Tensor& local() const { return local_; }

  // Whether this cycle ends with a sum over the ranks.
  void start_cycle(bool is_summed) { is_summed_ = is_summed; }

  // What was marked until now, and a new count; undefined in a cycle without a
  // sum. Then the sum of that over the ranks, which is launched without the
  // Reducer's lock. That it could not be launched is told by check(): what the
  // buckets say comes first.
  at::Tensor take();
  void reduce(ProcessGroup& group, at::Tensor taken) noexcept;
  void check() const;
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
  std::exception_ptr error_;
  bool is_summed_ = false;
};

}  // namespace lockstep::detail

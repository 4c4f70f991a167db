// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

// Which parameters had a gradient since the last reduction, on this rank and on
// any rank. A parameter that no rank has used keeps its gradient as it was.
//
//   used.start_cycle(true);
//   used.mark(parameter);                     // for each gradient
//   used.reduce(group, used.take());          // at the end of backward
//   if (!used.is_used_anywhere(parameter)) ...
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

  // At the start of a backward, by parameter: whether any rank uses it.
  // `unused` are the parameters that this rank does not use in it; marks of
  // earlier backwards in the cycle count too. All ranks get the same answer, as
  // they need it to skip the same buckets. A collective that blocks.
  std::vector<bool> agree(ProcessGroup& group,
                          const std::vector<size_t>& unused);

  // Returns the marks and clears them; an undefined tensor in a cycle without a
  // sum.
  at::Tensor take();
  // Launches the sum of these marks over the ranks; needs no lock. If that
  // fails check() throws the error later, so that an error of a bucket comes
  // first.
  void reduce(ProcessGroup& group, at::Tensor taken) noexcept;
  void check() const;
  // Waits for the sum. Needed only for a parameter that this rank did not use.
  // True in a cycle without a sum.
  bool is_used_anywhere(size_t parameter) const;
  // After a failure.
  void reset();

 private:
  int32_t* words() { return static_cast<int32_t*>(local_.data_ptr()); }

  at::Tensor local_;
  at::Tensor global_;
  WorkHandle pending_;  // the collective that fills global_
  std::exception_ptr error_;
  bool is_summed_ = false;
};

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/bytes.h"
#include "lockstep/collective/types.h"

namespace lockstep::tool {

// What the ranks of a benchmark put into a collective, and how many elements
// of what comes out are wrong.
//
// Every input is a small whole number, so that results are exact in every type
// and order; an average of floats, which is not, may be off by its rounding.
// What is expected is computed here, without the library's own arithmetic.
// Values repeat after kPeriod elements, so that large buffers are checked at
// the speed of comparing memory.
class BenchData {
 public:
  static constexpr size_t kPeriod = 509;  // prime: parts do not look alike

  // Another `seed` makes other data, so that old results are not taken for new.
  BenchData(DType dtype, ReduceOp::Kind kind, int ranks, uint32_t seed)
      : dtype_(dtype), kind_(kind), ranks_(ranks), seed_(seed) {}

  // The operation as a collective wants it: premul_sum has a factor of 2.
  ReduceOp op() const;

  // Writes the input of `rank` from its element `first` on.
  void fill(const Buffer& buffer, int rank, size_t first = 0) const;

  // How many elements differ from that input, or from the reduction of the
  // inputs of all ranks.
  size_t wrong_input(const Buffer& buffer, int rank, size_t first = 0) const;
  size_t wrong_result(const Buffer& buffer, size_t first = 0) const;

 private:
  double input_at(int rank, size_t index) const;
  double result_at(size_t index) const;
  template <class ValueAt>
  ByteVector period_of(size_t count, ValueAt value_at) const;
  template <class IsFine>
  size_t wrong_elements(const Buffer& buffer, const ByteVector& period,
                        IsFine is_fine) const;

  DType dtype_;
  ReduceOp::Kind kind_;
  int ranks_;
  uint32_t seed_;
};

}  // namespace lockstep::tool

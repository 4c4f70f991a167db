// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/base/error.h"
#include "lockstep/collective/types.h"

namespace lockstep::testing {

// A large piece of memory that is handed out bit by bit, until clear().
class MemoryPool {
 public:
  MemoryPool() = default;
  explicit MemoryPool(Bytes memory) : memory_(memory) {}

  Bytes take(size_t bytes) {
    LOCKSTEP_ASSERT(bytes <= memory_.size() - used_);
    const Bytes taken = memory_.from(used_).first(bytes);
    used_ += bytes;
    return taken;
  }
  void clear() { used_ = 0; }

 private:
  Bytes memory_;
  size_t used_ = 0;
};

// Memory for one test buffer, with a fence on both sides that nobody may
// touch. It is aligned to its element only. It comes from `pool`, or from the
// heap.
class FencedMemory {
 public:
  FencedMemory() = default;
  FencedMemory(size_t count, DType dtype, MemoryPool* pool = nullptr);
  FencedMemory(FencedMemory&&) = default;
  FencedMemory& operator=(FencedMemory&&) = default;
  FencedMemory(const FencedMemory&) = delete;
  FencedMemory& operator=(const FencedMemory&) = delete;

  Buffer buffer();
  bool fences_hold() const;
  // Nothing was written since it was made.
  bool is_untouched() const;

 private:
  size_t begin() const;
  bool is_empty() const { return memory_.empty(); }

  DType dtype_ = DType::kFloat32;
  size_t count_ = 0;
  ByteVector own_;
  Bytes memory_;
};

// What the ranks put into a collective, and what should come out, computed the
// dull way: one element after the other, one rank after the other.
//
// All values are small integers in whatever type, so that results are exact
// and bytes can be compared. They repeat after kPeriod elements, which lets
// large buffers be checked by comparing them with themselves.
class Pattern {
 public:
  static constexpr size_t kPeriod = 251;  // prime: no slice begins like another

  // `seed` makes another pattern of the same kind.
  Pattern(DType dtype, ReduceOp::Kind kind, int ranks, uint32_t seed)
      : dtype_(dtype), kind_(kind), ranks_(ranks), seed_(seed) {}

  // The reduction as `rank` has to call it: premul_sum has a factor per rank.
  ReduceOp op_for(int rank) const;

  // Writes the input of `rank`, from its element `first` on.
  void fill_input(const Buffer& buffer, int rank, size_t first = 0) const;

  // What is wrong with `buffer`, which should hold that input, or the
  // reduction of all ranks' inputs; empty when nothing is.
  std::string input_problem(const Buffer& buffer, int rank,
                            size_t first = 0) const;
  std::string reduced_problem(const Buffer& buffer, size_t first = 0) const;

 private:
  int64_t input_at(int rank, size_t index) const;
  int64_t reduced_at(size_t index) const;
  int64_t sum_at(size_t index) const;

  DType dtype_;
  ReduceOp::Kind kind_;
  int ranks_;
  uint32_t seed_;
};

// A number as an element of any type, and back, through `data[index]`.
void put(const Buffer& buffer, size_t index, int64_t value);
double number_at(const Buffer& buffer, size_t index);

}  // namespace lockstep::testing

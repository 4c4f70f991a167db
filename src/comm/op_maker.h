// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/collective/collective_op.h"

namespace lockstep::detail {

// Turns the arguments of a collective into a CollectiveOp, as one rank of
// `size` sees it: checks all that one rank can check alone, and fills in the
// signature but for the sequence number.
//
// Errors: UsageError says what was expected and what was given.
class OpMaker {
 public:
  using Counts = std::vector<size_t>;

  OpMaker(int rank, int size) : rank_(rank), size_(size) {}

  CollectiveOp all_reduce(Buffer in, Buffer out, ReduceOp op) const;
  CollectiveOp broadcast(Buffer data, int root) const;
  CollectiveOp reduce(Buffer in, Buffer out, ReduceOp op, int root) const;
  CollectiveOp all_gather(Buffer in, Buffer out, const Counts& counts) const;
  CollectiveOp gather(Buffer in, Buffer out, int root,
                      const Counts& counts) const;
  CollectiveOp scatter(Buffer in, Buffer out, int root,
                       const Counts& counts) const;
  CollectiveOp reduce_scatter(Buffer in, Buffer out, ReduceOp op,
                              const Counts& counts) const;
  CollectiveOp all_to_all(Buffer in, Buffer out, const Counts& in_counts,
                          const Counts& out_counts) const;
  CollectiveOp barrier() const;
  CollectiveOp allocate(size_t bytes) const;

  // Makes ranks compare `shape` in place of the number of elements, where that
  // is what they compare; empty means: no.
  void set_shape(CollectiveOp& op, const std::vector<int64_t>& shape) const;

  void check_buffer(const char* which, const Buffer& buffer) const;
  void check_rank(const char* which, int rank) const;

 private:
  // One rank's part and the whole it is a part of.
  void check_parts(const char* part_name, const Buffer& part,
                   const char* whole_name, const Buffer& whole,
                   const Counts& counts) const;
  void check_part(const char* part_name, const Buffer& part,
                  const Counts& counts) const;
  void check_counts(const char* name, const Counts& counts) const;

  const int rank_;
  const int size_;
};

}  // namespace lockstep::detail

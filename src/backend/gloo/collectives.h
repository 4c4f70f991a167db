// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/gloo/exchange.h"
#include "lockstep/backend/gloo.h"

// The collectives, as exchanges between all ranks. docs/gloo.md tells steps and
// bytes of each.
namespace lockstep::detail {

// The place of a rank in a list by rank.
inline size_t at(int rank) { return static_cast<size_t>(rank); }

// One collective of one rank.
struct GlooStep {
  Exchange& exchange;
  const CollectiveOp& op;
  Patience& patience;

  int rank() const { return exchange.rank(); }
  int size() const { return exchange.size(); }
  Part in_part(int rank) const {
    return part_of(op.in_counts, op.in.count, rank, size());
  }
  Part out_part(int rank) const {
    return part_of(op.out_counts, op.out.count, rank, size());
  }

  // An entry per rank, all empty.
  std::vector<ConstBytes> nothing_to_send() const {
    return std::vector<ConstBytes>(static_cast<size_t>(size()));
  }
  std::vector<Bytes> nothing_to_receive() const {
    return std::vector<Bytes>(static_cast<size_t>(size()));
  }
};

inline Bytes bytes_of(const Buffer& buffer) {
  return {buffer.data, buffer.bytes()};
}
inline Bytes bytes_of(const Buffer& buffer, Part part) {
  return bytes_of(buffer.slice(part.offset, part.count));
}

// Data that move as they are: collectives_move.cc.
void broadcast(const GlooStep& step);
void all_gather(const GlooStep& step);
void gather(const GlooStep& step);
void scatter(const GlooStep& step);
void all_to_all(const GlooStep& step);
void barrier(const GlooStep& step);

// Data that are combined: collectives_reduce.cc.
void all_reduce(const GlooStep& step, GlooAlgorithm algorithm);
void reduce_to_root(const GlooStep& step);
void reduce_scatter(const GlooStep& step);

// Gloo's own all_reduce, for what it can do; false when it cannot, and then
// nothing has happened. Ranks have agreed before: collectives_native.cc.
bool can_reduce_natively(const CollectiveOp& op);
void all_reduce_natively(const GlooStep& step, GlooAlgorithm algorithm);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <vector>

#include "lockstep/collective/arena.h"
#include "lockstep/collective/reduce.h"

// The patterns behind arena_patterns.h, one function each.
namespace lockstep::detail {

// One rank's view of one operation.
struct ArenaStep {
  Arena& arena;
  const CollectiveOp& op;
  Patience& patience;

  int rank() const { return arena.rank(); }
  int size() const { return arena.size(); }

  // Meets after a payload was left: nobody asks where the memory is.
  void meet_small() const {
    arena.meet({op.signature, op.reduce.factor(), {}, {}}, patience);
  }
  // Shows what this rank brings, and learns what the others do.
  void meet() const {
    arena.meet({op.signature, op.reduce.factor(), arena.ref_of(op.in),
                arena.ref_of(op.out)},
               patience);
  }
  bool is_small(size_t bytes) const {
    return bytes <= arena.tuning().one_phase_bytes;
  }
  // Whether all see what `peer` gave, or where it wants its result. Every rank
  // finds the same.
  bool sees_in(int peer) const { return !arena.record(peer).in.is_private(); }
  bool sees_out(int peer) const { return !arena.record(peer).out.is_private(); }
  bool sees_all_in() const {
    for (int peer = 0; peer < size(); ++peer) {
      if (!sees_in(peer)) return false;
    }
    return true;
  }
  bool sees_all_out() const {
    for (int peer = 0; peer < size(); ++peer) {
      if (!sees_out(peer)) return false;
    }
    return true;
  }
  // Element `offset` of what `peer` gave.
  std::byte* in_of(int peer, size_t offset = 0) const {
    return arena.at(peer, arena.record(peer).in) +
           offset * size_of(op.in.dtype);
  }
  std::byte* out_of(int peer, size_t offset = 0) const {
    return arena.at(peer, arena.record(peer).out) +
           offset * size_of(op.out.dtype);
  }
};

inline std::byte* bytes_at(const Buffer& buffer, size_t offset) {
  return static_cast<std::byte*>(buffer.data) + offset * size_of(buffer.dtype);
}

// In place, the two are the same memory.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

// Combines `count` elements of all ranks' inputs, each from input_of(rank) on,
// in the order of ranks. The lists are the arena's, so that a small operation
// allocates nothing.
template <class InputOf>
void combine(const ArenaStep& step, InputOf input_of,
             const std::vector<void*>& outputs, size_t count) {
  if (count == 0) return;
  const bool has_factors = step.op.reduce.kind() == ReduceOp::kPremulSum;
  Arena::Lists& lists = step.arena.lists();
  lists.inputs.clear();
  lists.factors.clear();
  for (int rank = 0; rank < step.size(); ++rank) {
    lists.inputs.push_back(input_of(rank));
    lists.factors.push_back(has_factors ? step.arena.record(rank).factor : 1);
  }
  const Reduction reduction{step.op.reduce.kind(), step.op.in.dtype,
                            lists.factors.data()};
  lockstep::reduce(reduction, lists.inputs.data(), step.size(), outputs.data(),
                   static_cast<int>(outputs.size()), count);
}

// arena_reduce.cc
void all_reduce(const ArenaStep& step);
void reduce_to_root(const ArenaStep& step);
void reduce_scatter(const ArenaStep& step);

// arena_move.cc
void broadcast(const ArenaStep& step);
void all_gather(const ArenaStep& step);
void gather(const ArenaStep& step);
void scatter(const ArenaStep& step);
void all_to_all(const ArenaStep& step);

// arena_staged.cc: the same after meet(), for memory that others do not see.
void all_reduce_staged(const ArenaStep& step);
void reduce_to_root_staged(const ArenaStep& step);
void reduce_scatter_staged(const ArenaStep& step);
void broadcast_staged(const ArenaStep& step);
void all_gather_staged(const ArenaStep& step);
void gather_staged(const ArenaStep& step);
void scatter_staged(const ArenaStep& step);
// `largest` is the largest part of all.
void all_to_all_staged(const ArenaStep& step, size_t largest);

}  // namespace lockstep::detail

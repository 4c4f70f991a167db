// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collective/arena.h"

// The patterns behind arena_patterns.h, one function each.
namespace lockstep::detail {

// One rank's view of one operation.
struct ArenaStep {
  Arena& arena;
  const CollectiveOp& op;
  Patience& patience;

  int rank() const { return arena.rank(); }
  int size() const { return arena.size(); }

  ArenaRecord record() const {
    return {op.signature, op.reduce.factor(), arena.ref_of(op.in.data),
            arena.ref_of(op.out.data)};
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

// arena_reduce.cc
void all_reduce(ArenaStep& step);
void reduce_to_root(ArenaStep& step);
void reduce_scatter(ArenaStep& step);

// arena_move.cc
void broadcast(ArenaStep& step);
void all_gather(ArenaStep& step);
void gather(ArenaStep& step);
void scatter(ArenaStep& step);
void all_to_all(ArenaStep& step);

}  // namespace lockstep::detail

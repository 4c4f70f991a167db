// SPDX-License-Identifier: Apache-2.0
// The patterns that combine. In all of them an element is combined by one call
// of reduce(), from all ranks' inputs in the order of ranks: that is why the
// bits do not depend on the pattern, the slice or the rank.
#include <cstring>

#include "collective/arena_steps.h"
#include "lockstep/collective/arena_patterns.h"
#include "lockstep/collective/reduce.h"

namespace lockstep::detail {
namespace {

// Combines `count` elements of all ranks' inputs, each from input_of(rank) on.
// The lists are the arena's, so that a small operation allocates nothing.
template <class InputOf>
void combine(ArenaStep& step, InputOf input_of,
             const std::vector<void*>& outputs, size_t count) {
  if (count == 0) return;
  Arena::Lists& lists = step.arena.lists();
  lists.inputs.clear();
  lists.factors.clear();
  for (int rank = 0; rank < step.size(); ++rank) {
    lists.inputs.push_back(input_of(rank));
    lists.factors.push_back(step.arena.record(rank).factor);
  }
  const Reduction reduction{step.op.reduce.kind(), step.op.in.dtype,
                            lists.factors.data()};
  lockstep::reduce(reduction, lists.inputs.data(), step.size(), outputs.data(),
                   static_cast<int>(outputs.size()), count);
}

std::vector<void*>& one_output(ArenaStep& step, void* output) {
  return step.arena.lists().outputs = {output};
}

// Each rank shows a copy of its input and combines everything for itself.
// Bytes: S copied, N·S read, S written per rank; one synchronisation.
void all_reduce_one_phase(ArenaStep& step) {
  const CollectiveOp& op = step.op;
  if (op.in.count > 0) {
    std::memcpy(step.arena.payload(), op.in.data, op.in.bytes());
  }
  step.arena.meet(step.record(), step.patience);
  combine(
      step, [&](int rank) { return step.arena.payload(rank); },
      one_output(step, op.out.data), op.in.count);
}

// Rank r alone reads slice r of all inputs and writes slice r of all outputs.
// Bytes: S read and S written per rank; two synchronisations; no copy.
void all_reduce_in_place(ArenaStep& step) {
  step.arena.exchange(step.record(), step.patience, [&] {
    const Part slice =
        slice_of(step.op.in.count, step.op.in.dtype, step.rank(), step.size());
    auto& outputs = step.arena.lists().outputs;
    outputs.clear();
    for (int rank = 0; rank < step.size(); ++rank) {
      outputs.push_back(step.out_of(rank, slice.offset));
    }
    combine(
        step, [&](int rank) { return step.in_of(rank, slice.offset); }, outputs,
        slice.count);
  });
}

}  // namespace

void all_reduce(ArenaStep& step) {
  if (step.op.in.bytes() <= one_phase_limit(step.size())) {
    all_reduce_one_phase(step);
  } else {
    all_reduce_in_place(step);
  }
}

// Every rank combines a slice, straight into the root's memory.
void reduce_to_root(ArenaStep& step) {
  step.arena.exchange(step.record(), step.patience, [&] {
    const Part slice =
        slice_of(step.op.in.count, step.op.in.dtype, step.rank(), step.size());
    combine(
        step, [&](int rank) { return step.in_of(rank, slice.offset); },
        one_output(step, step.out_of(step.op.root, slice.offset)), slice.count);
  });
}

// Every rank combines its own part into its own memory.
void reduce_scatter(ArenaStep& step) {
  step.arena.exchange(step.record(), step.patience, [&] {
    const Part part =
        part_of(step.op.in_counts, step.op.in.count, step.rank(), step.size());
    combine(
        step, [&](int rank) { return step.in_of(rank, part.offset); },
        one_output(step, step.op.out.data), part.count);
  });
}

}  // namespace lockstep::detail

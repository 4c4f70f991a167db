// SPDX-License-Identifier: Apache-2.0
// The patterns that combine. In all of them an element is combined by one call
// of reduce(), from all ranks' inputs in the order of ranks: that is why the
// bits do not depend on the pattern, the slice or the rank.
#include "collective/arena_steps.h"

namespace lockstep::detail {
namespace {

std::vector<void*>& one_output(const ArenaStep& step, void* output) {
  return step.arena.lists().outputs = {output};
}

Part own_slice(const ArenaStep& step) {
  return slice_of(step.op.in.count, step.op.in.dtype, step.rank(), step.size());
}

// Each rank shows a copy of its input; those who want the result combine
// everything for themselves.
// Bytes: S copied, N·S read, S written per rank; one synchronisation.
void reduce_one_phase(const ArenaStep& step, bool wants_result) {
  const CollectiveOp& op = step.op;
  const size_t bytes = op.in.bytes();
  copy_bytes(step.arena.payload(bytes), bytes_at(op.in, 0), bytes);
  step.meet_small();
  if (!wants_result) return;
  combine(
      step, [&](int rank) { return step.arena.payload(rank, bytes); },
      one_output(step, op.out.data), op.in.count);
}

// Rank r alone reads slice r of all inputs and writes slice r of all outputs.
// Bytes: S read and S written per rank; two synchronisations; no copy.
void all_reduce_in_place(const ArenaStep& step) {
  step.arena.work_and_part(step.patience, [&] {
    const Part slice = own_slice(step);
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

void all_reduce(const ArenaStep& step) {
  if (step.is_small(step.op.in.bytes())) return reduce_one_phase(step, true);
  step.meet();
  if (step.sees_all_in() && step.sees_all_out()) {
    all_reduce_in_place(step);
  } else {
    all_reduce_staged(step);
  }
}

// Every rank combines a slice, straight into the root's memory.
void reduce_to_root(const ArenaStep& step) {
  const int root = step.op.root;
  if (step.is_small(step.op.in.bytes())) {
    return reduce_one_phase(step, step.rank() == root);
  }
  step.meet();
  if (!step.sees_all_in() || !step.sees_out(root)) {
    return reduce_to_root_staged(step);
  }
  step.arena.work_and_part(step.patience, [&] {
    const Part slice = own_slice(step);
    combine(
        step, [&](int rank) { return step.in_of(rank, slice.offset); },
        one_output(step, step.out_of(root, slice.offset)), slice.count);
  });
}

// Every rank combines its own part into its own memory.
void reduce_scatter(const ArenaStep& step) {
  step.meet();
  if (!step.sees_all_in()) return reduce_scatter_staged(step);
  step.arena.work_and_part(step.patience, [&] {
    const Part part =
        part_of(step.op.in_counts, step.op.in.count, step.rank(), step.size());
    combine(
        step, [&](int rank) { return step.in_of(rank, part.offset); },
        one_output(step, step.op.out.data), part.count);
  });
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/arena_patterns.h"

#include "collective/arena_steps.h"

namespace lockstep {

void run_on_arena(Arena& arena, const CollectiveOp& op, Patience& patience) {
  const detail::ArenaStep step{arena, op, patience};
  switch (op.kind) {
    case OpKind::kAllReduce:
      return all_reduce(step);
    case OpKind::kReduce:
      return reduce_to_root(step);
    case OpKind::kReduceScatter:
      return reduce_scatter(step);
    case OpKind::kBroadcast:
      return broadcast(step);
    case OpKind::kAllGather:
      return all_gather(step);
    case OpKind::kGather:
      return gather(step);
    case OpKind::kScatter:
      return scatter(step);
    case OpKind::kAllToAll:
      return all_to_all(step);
    case OpKind::kBarrier:
    case OpKind::kAllocate:
      return step.meet_small();
    case OpKind::kSend:
    case OpKind::kRecv:
    case OpKind::kLocalStep:
      break;
  }
  LOCKSTEP_ASSERT(false && "not a collective");
}

}  // namespace lockstep

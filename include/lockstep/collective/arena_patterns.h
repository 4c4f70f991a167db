// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/collective/arena.h"

namespace lockstep {

// Runs one collective on an arena: the exchange patterns of docs/collectives.md
// for ranks that share pages.
//
// Errors: those of the arena; MismatchError when the parts that ranks give
//         each other in all_to_all differ from those expected.
void run_on_arena(Arena& arena, const CollectiveOp& op, Patience& patience);

}  // namespace lockstep

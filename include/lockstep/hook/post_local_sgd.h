// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/comm/process_group.h"
#include "lockstep/hook/comm_hook.h"

namespace lockstep::hooks {

// All ranks choose the same, apart from the subgroup.
struct PostLocalSgdOptions {
  // So many reductions are averages over all ranks first.
  int64_t start_iter = 1000;

  // Who averages with whom after that: this rank's subgroup, where each rank is
  // in one. Null: the ranks of this host, as a group that the hook makes.
  std::shared_ptr<ProcessGroup> subgroup;

  // Off: after the start each rank keeps its own gradients.
  bool reduce_locally = true;
};

// Post-local SGD: gradients are averaged over all ranks at first, and later
// only among the ranks of a subgroup, whose links are quick (Lin, Stich, Patel,
// Jaggi: Don't Use Large Mini-Batches, Use Local SGD, 2018).
//
//   hooks::PostLocalSgdOptions options;
//   options.start_iter = 500;
//   ddp.register_comm_hook(hooks::post_local_sgd(options));
//
// From the start on replicas DIFFER between subgroups. The program has to
// average parameters over all ranks itself, every few steps and at the end:
//
//   if (step >= 500 && step % 4 == 0) {
//     const at::NoGradGuard no_grad;
//     for (const at::Tensor& one : module->parameters()) {
//       lockstep::all_reduce(world, one.detach(), ReduceOp::kAverage)->wait();
//     }
//   }
//
// Without a subgroup of the program's own, one is made with the first bucket
// after the start, among ranks with the same host name: collectives that block.
// With a new Reducer and after a reset, ranks compare once how many reductions
// they have counted, and the largest number counts for all; the default
// subgroup is made anew.
//
// The subgroup and the Reducer's lane fail together: when one rank fails, the
// ranks of its subgroup hear of it at once, all others in their next step. A
// subgroup of the program's own that has failed stays so: register a hook with
// a new one after the reset.
//
// Ownership: copies of the hook share one count and one subgroup.
// Errors:    UsageError for a negative start_iter, and out of backward when
//            the subgroup has failed before. MismatchError out of backward when
//            options differ between ranks.
CommHook post_local_sgd(PostLocalSgdOptions options = {});

}  // namespace lockstep::hooks

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/hook/comm_hook.h"

namespace lockstep::hooks {

struct TopKOptions {
  // The part of a bucket's elements that is sent: above 0 and at most 1,
  // rounded up to whole elements.
  double ratio = 0.01;
  // Keep what was not sent, and add it to the next gradients. Without that
  // small gradients are never sent at all.
  bool error_feedback = true;
};

// Only the largest gradients travel, with their places.
//
//   ddp.register_comm_hook(hooks::top_k());
//
// Each rank sends the k elements of a bucket that are largest in absolute
// value, k = ratio * n rounded up, to all ranks; of equal ones those that come
// first. A result is the sum of what the ranks have sent for the element, in
// the order of ranks, divided as context.divisor() says; 0 if nobody sent it.
// NaN counts as larger than any number, so it is always seen.
//
// Bytes:    every rank gets 8 k bytes from every other one, so the total of a
//           rank grows with the number of ranks N: 8 k (N - 1), against 8 n
//           (N - 1) / N for a plain all_reduce. With ratio 0.01 and 8 ranks
//           that is a twelfth, with 100 ranks nothing is gained.
// Time:     for 25 MB, one core: 15 to 20 ms to choose, 3 ms to add what came,
//           on the lane's thread, beside backward.
// Error:    of an element at most what the ranks have not sent of it: none of
//           them is larger than the smallest number that the rank has sent.
//           Results are the same on all ranks, bit by bit.
// Feedback: costs as much memory as the gradients, on each rank. It belongs to
//           parameters and stays with them when buckets are rebuilt. Where a
//           number is not finite, what was left out is forgotten.
//
// Dense buckets of float32 are compressed. Other buckets, and all of them where
// there is one rank only, are reduced as they are, exactly.
//
// Ownership: a hook is for one Reducer. Copies share what was left out.
// Threads:   as for CommHook.
// Errors:    UsageError here for a wrong ratio; MismatchError out of backward()
//            when ranks send different numbers of elements.
CommHook top_k(const TopKOptions& options = {});

}  // namespace lockstep::hooks

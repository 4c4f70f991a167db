// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/base/future.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/hook/grad_bucket.h"

namespace lockstep {

// A CommHook says how the gradients of a bucket become the same on all ranks.
//
// It is called once per bucket and backward, in the order of buckets, on the
// thread that runs backward, and must not wait: it launches and returns a
// Future. The Future's value is one tensor with as many elements as the buffer
// (often the buffer itself, which saves a copy), and becomes the gradients. It
// must complete, or backward fails when the group's timeout has passed.
//
// Launch on the Reducer's own group(): what a program launches elsewhere cannot
// get between, and when one rank fails the others hear of it at once. On
// another group they wait for its timeout.
//
// Errors: what it throws, and what its Future fails with, comes out of
//         backward(); the Reducer has failed then, on all ranks.
using CommHook = std::function<Future<at::Tensor>(GradBucket)>;

namespace hooks {

// The average over the ranks of `group`, folded into the reduction: what a
// Reducer does without a hook.
CommHook all_reduce(std::shared_ptr<ProcessGroup> group);

// Leaves each rank its own gradients: shows what training costs without
// communication, and is no training.
CommHook noop();

}  // namespace hooks

namespace detail {

// Launches the reduction of the bucket's buffer, in place.
Future<at::Tensor> reduce_buffer(ProcessGroup& group, const GradBucket& bucket,
                                 ReduceOp op);

}  // namespace detail

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/tensor/collectives.h"

namespace lockstep::detail {

// Sum or average of sparse COO tensors whose numbers of entries differ from
// rank to rank, in place: the ranks show each other what they have, then
// gather all indices and all values, and each adds them up in rank order.
WorkHandle all_reduce_sparse(GroupRef group, const at::Tensor& tensor,
                             ReduceOp op, CallOptions options);

}  // namespace lockstep::detail

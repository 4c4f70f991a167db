// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/parameter_set.h"

namespace lockstep::detail {

// The plan in which these tensors share buckets, in this order. Tensors that
// are no parameters here (frozen, ignored) are left out, and so is the second
// mention of a tied one. A bucket of several types becomes one of each; sparse
// parameters get their own. What no bucket has comes last, in a bucket for each
// type, in the order in which gradients are expected.
BucketPlan plan_by_tensor(const std::vector<std::vector<at::Tensor>>& buckets,
                          const ParameterSet& parameters);

}  // namespace lockstep::detail

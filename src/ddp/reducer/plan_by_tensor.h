// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "ddp/reducer/parameter_set.h"

namespace lockstep::detail {

// The plan in which these tensors share buckets, in this order. Tensors that
// are not among the parameters (frozen, ignored) are left out, and so is the
// second mention of a parameter. A bucket of several types becomes a bucket for
// each type; a sparse parameter gets a bucket of its own. Parameters that are
// in no bucket come last, in a bucket for each type, the last parameter first.
BucketPlan plan_by_tensor(const std::vector<std::vector<at::Tensor>>& buckets,
                          const ParameterSet& parameters);

}  // namespace lockstep::detail

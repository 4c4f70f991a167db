// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::detail {

// `matrix` becomes the product of p and q: of rows x cols from rank x rows and
// rank x cols. Where `residual` is defined, it becomes what `matrix` was minus
// `share` times the product. All are contiguous float32.
//
// One pass over the matrix, and the same bits on every processor: sums go over
// the rank in order, where libtorch's own product leaves that to the processor.
void expand(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
            const at::Tensor& residual, float share = 1);

}  // namespace lockstep::detail

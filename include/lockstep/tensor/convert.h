// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

// Copies the elements of `from`, times `factor`, into `to`, which has the same
// sizes and perhaps another type. Between float32 and the 16-bit types, and
// where both are laid out alike, at the speed of memory: libtorch converts
// element by element. Autograd does not see it.
void convert_into(const at::Tensor& to, const at::Tensor& from,
                  double factor = 1);

}  // namespace lockstep

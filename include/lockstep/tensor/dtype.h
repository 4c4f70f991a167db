// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include "lockstep/collective/types.h"

namespace lockstep {

// libtorch's element types as ours and back.
// Errors: UsageError names the type when there is none; complex types are
//         handled as pairs, above this.
DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(DType dtype);

}  // namespace lockstep

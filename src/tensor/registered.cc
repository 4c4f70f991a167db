// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {

at::Tensor registered_zeros(GroupRef group, at::IntArrayRef sizes,
                            at::ScalarType dtype) {
  size_t count = 1;
  for (const int64_t size : sizes) {
    LOCKSTEP_CHECK(size >= 0, UsageError, "a size of {} is negative", size);
    count *= static_cast<size_t>(size);
  }
  const size_t bytes = count * size_of(dtype_of(dtype));
  const RegisteredMemory memory = group->allocate(bytes);
  if (bytes == 0) return at::empty(sizes, dtype);
  return at::from_blob(
      memory.data(), sizes, [owner = memory.owner()](void*) {},
      at::TensorOptions(dtype));
}

}  // namespace lockstep

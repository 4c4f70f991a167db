// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {
namespace {

constexpr size_t kMostElements = size_t{1} << 58;

}  // namespace

at::Tensor registered_zeros(GroupRef group, at::IntArrayRef sizes,
                            at::ScalarType dtype) {
  size_t count = 1;
  for (const int64_t size : sizes) {
    LOCKSTEP_CHECK(size >= 0, UsageError, "a size of {} is negative", size);
    LOCKSTEP_CHECK(
        size == 0 || count <= kMostElements / static_cast<size_t>(size),
        UsageError, "no memory has so many elements");
    count *= static_cast<size_t>(size);
  }
  if (!c10::isComplexType(dtype)) dtype_of(dtype);
  const size_t bytes = count * c10::elementSize(dtype);
  const RegisteredMemory memory = group->allocate(bytes);
  if (bytes == 0) return at::empty(sizes, dtype);
  return at::from_blob(
      memory.data(), sizes, [owner = memory.owner()](void*) {},
      at::TensorOptions(dtype));
}

}  // namespace lockstep

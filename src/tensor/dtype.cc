// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/dtype.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct Pair {
  DType ours;
  at::ScalarType theirs;
};
constexpr Pair kPairs[] = {
    {DType::kFloat32, at::kFloat}, {DType::kFloat64, at::kDouble},
    {DType::kFloat16, at::kHalf},  {DType::kBFloat16, at::kBFloat16},
    {DType::kInt8, at::kChar},     {DType::kUInt8, at::kByte},
    {DType::kInt16, at::kShort},   {DType::kInt32, at::kInt},
    {DType::kInt64, at::kLong},    {DType::kBool, at::kBool},
};

}  // namespace

DType dtype_of(at::ScalarType type) {
  for (const Pair& pair : kPairs) {
    if (pair.theirs == type) return pair.ours;
  }
  throw UsageError(
      fmt::format("tensors of {} cannot be sent", c10::toString(type)));
}

at::ScalarType scalar_type_of(DType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.ours == dtype) return pair.theirs;
  }
  throw UsageError(fmt::format("{} has no tensor type", to_text(dtype)));
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/types.h"

#include <array>

#include <fmt/format.h>

#include "collective/half.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct DTypeFacts {
  const char* name;
  bool floating;
};
constexpr std::array<DTypeFacts, kDTypeCount> kDTypes = {{
    {"float32", true},
    {"float64", true},
    {"float16", true},
    {"bfloat16", true},
    {"int8", false},
    {"uint8", false},
    {"int16", false},
    {"int32", false},
    {"int64", false},
    {"bool", false},
}};
const DTypeFacts& facts(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

}  // namespace

const char* to_text(DType dtype) { return facts(dtype).name; }
bool is_floating(DType dtype) { return facts(dtype).floating; }

Buffer Buffer::slice(size_t offset, size_t length) const {
  LOCKSTEP_ASSERT(offset <= count && length <= count - offset);
  return {static_cast<std::byte*>(data) + offset * size_of(dtype), length,
          dtype};
}

ReduceOp ReduceOp::premul_sum(Buffer factor) {
  LOCKSTEP_CHECK(factor.data != nullptr, UsageError,
                 "premul_sum: the factor has no memory");
  LOCKSTEP_CHECK(factor.count == 1 && is_floating(factor.dtype), UsageError,
                 "premul_sum: the factor is one floating element, not {} of {}",
                 factor.count, to_text(factor.dtype));
  switch (factor.dtype) {
    case DType::kFloat64:
      return premul_sum(*static_cast<const double*>(factor.data));
    case DType::kFloat16:
      return premul_sum(static_cast<double>(detail::float_of_float16(
          *static_cast<const uint16_t*>(factor.data))));
    case DType::kBFloat16:
      return premul_sum(static_cast<double>(detail::float_of_bfloat16(
          *static_cast<const uint16_t*>(factor.data))));
    default:
      return premul_sum(
          static_cast<double>(*static_cast<const float*>(factor.data)));
  }
}

const char* to_text(ReduceOp::Kind kind) {
  static constexpr std::array<const char*, ReduceOp::kKindCount> kNames = {
      "sum",  "average", "product", "min",       "max",
      "band", "bor",     "bxor",    "premul_sum"};
  return kNames[kind];
}

bool is_defined(ReduceOp::Kind kind, DType dtype) {
  switch (kind) {
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return !is_floating(dtype);
    case ReduceOp::kAverage:
      return dtype != DType::kBool;
    case ReduceOp::kPremulSum:
      return is_floating(dtype);
    default:
      return true;
  }
}

void check_defined(ReduceOp::Kind kind, DType dtype) {
  LOCKSTEP_CHECK(is_defined(kind, dtype), UsageError,
                 "the operation '{}' is not defined for {}", to_text(kind),
                 to_text(dtype));
}

}  // namespace lockstep

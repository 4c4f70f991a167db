// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/finite.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lockstep/collective/finite.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

// A number is not finite when all bits of its exponent are set: without the
// sign, its bits are at least `infinity`. The compiler makes vectors of the
// loop over a block; the block with such a number is searched.
template <class Bits>
size_t first_at_least(const void* data, size_t count, Bits infinity) {
  using Signed = std::make_signed_t<Bits>;
  constexpr size_t kBlock = 2048;
  constexpr auto kSize =
      static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  const auto* const bits = static_cast<const Bits*>(data);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    Signed largest = 0;
    for (size_t i = begin; i < end; ++i) {
      largest = std::max(largest, static_cast<Signed>(bits[i] & kSize));
    }
    if (largest < static_cast<Signed>(infinity)) continue;
    for (size_t i = begin; i < end; ++i) {
      if ((bits[i] & kSize) >= infinity) return i;
    }
  }
  return count;
}

size_t find_non_finite(const Buffer& data) {
  switch (data.dtype) {
    case DType::kFloat32:
      return first_at_least<uint32_t>(data.data, data.count, 0x7f800000);
    case DType::kFloat64:
      return first_at_least<uint64_t>(data.data, data.count,
                                      0x7ff0000000000000);
    case DType::kFloat16:
      return first_at_least<uint16_t>(data.data, data.count, 0x7c00);
    case DType::kBFloat16:
      return first_at_least<uint16_t>(data.data, data.count, 0x7f80);
    default:
      return data.count;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
namespace detail {

HWY_EXPORT(find_non_finite);

}  // namespace detail

using namespace detail;  // where Highway's table is

size_t first_non_finite(Buffer data) {
  return HWY_DYNAMIC_DISPATCH(find_non_finite)(data);
}

}  // namespace lockstep
#endif

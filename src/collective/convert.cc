// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/convert.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "collective/halves-inl.h"
#include "lockstep/base/error.h"
#include "lockstep/collective/convert.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

template <class Element>
void narrow_with(const float* from, uint16_t* to, size_t count, float factor) {
  const auto factors = Element::wide_of(factor);
  size_t i = 0;
  for (; i + Element::kLanes <= count; i += Element::kLanes) {
    Element::store(to + i,
                   Element::multiply(Element::load_numbers(from + i), factors));
  }
  if constexpr (Element::kLanes > 1) {
    using Rest = typename Element::Rest;
    for (; i < count; ++i) Rest::store(to + i, from[i] * factor);
  }
}

template <class Element>
void widen_with(const uint16_t* from, float* to, size_t count) {
  size_t i = 0;
  for (; i + Element::kLanes <= count; i += Element::kLanes) {
    Element::store_numbers(to + i, Element::load(from + i));
  }
  if constexpr (Element::kLanes > 1) {
    for (; i < count; ++i) to[i] = Element::Rest::load(from + i);
  }
}

// The compiler makes vectors of the loops for bfloat16.
void narrow_floats(const float* from, const Buffer& to, float factor) {
  auto* const out = static_cast<uint16_t*>(to.data);
  to.dtype == DType::kFloat16
      ? narrow_with<Float16Lanes>(from, out, to.count, factor)
      : narrow_with<BFloat16>(from, out, to.count, factor);
}

void widen_halves(const Buffer& from, float* to) {
  const auto* const in = static_cast<const uint16_t*>(from.data);
  from.dtype == DType::kFloat16 ? widen_with<Float16Lanes>(in, to, from.count)
                                : widen_with<BFloat16>(in, to, from.count);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
namespace detail {

HWY_EXPORT(narrow_floats);
HWY_EXPORT(widen_halves);

}  // namespace detail

using namespace detail;  // where Highway's tables are

void narrow(const float* from, Buffer to, float factor) {
  LOCKSTEP_ASSERT(to.dtype == DType::kFloat16 || to.dtype == DType::kBFloat16);
  HWY_DYNAMIC_DISPATCH(narrow_floats)(from, to, factor);
}

void widen(Buffer from, float* to) {
  LOCKSTEP_ASSERT(from.dtype == DType::kFloat16 ||
                  from.dtype == DType::kBFloat16);
  HWY_DYNAMIC_DISPATCH(widen_halves)(from, to);
}

}  // namespace lockstep
#endif

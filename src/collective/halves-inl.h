// SPDX-License-Identifier: Apache-2.0
// The 16-bit types as elements of loops, per target (no `#pragma once`: see
// Highway's foreach_target).
#if defined(LOCKSTEP_HALVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_HALVES_INL_H_
#undef LOCKSTEP_HALVES_INL_H_
#else
#define LOCKSTEP_HALVES_INL_H_
#endif

#include <hwy/highway.h>

#include "collective/half.h"
#include "collective/reduce_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

// The conversions of half.h once more, without branches and out-of-line calls:
// so the compiler makes vectors of them.
struct BFloat16 : Single<float> {
  using Stored = uint16_t;
  static HWY_INLINE Wide load(const Stored* from) {
    return float_of_bits(uint32_t{*from} << 16);
  }
  static HWY_INLINE void store(Stored* to, Wide value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40;
    *to = static_cast<Stored>(value != value ? nan : rounded);
  }
};

struct Float16 : Single<float> {
  using Stored = uint16_t;
  static HWY_INLINE Wide load(const Stored* from) {
    const uint32_t sign = (*from & 0x8000u) << 16;
    const uint32_t half = *from & 0x7fffu;
    const uint32_t normal = (half << 13) + (112u << 23);
    // Seen as mantissa of 2^-14 a subnormal is 2^-14 too large.
    const uint32_t subnormal =
        bits_of_float(float_of_bits((half << 13) + (113u << 23)) - 0x1p-14f);
    const uint32_t special =
        (half << 13) | 0x7f800000u | (half > 0x7c00u ? 0x400000u : 0u);
    const uint32_t finite = half < 0x400u ? subnormal : normal;
    return float_of_bits(sign | (half < 0x7c00u ? finite : special));
  }
  static HWY_INLINE void store(Stored* to, Wide value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    const uint32_t normal =
        (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
    const uint32_t subnormal =
        bits_of_float(float_of_bits(size) + 0.5f) - bits_of_float(0.5f);
    const uint32_t nan = 0x7e00u | ((size >> 13) & 0x3ffu);
    const uint32_t finite = size < 0x38800000u ? subnormal : normal;
    const uint32_t special = size > 0x7f800000u ? nan : 0x7c00u;
    *to = static_cast<Stored>(sign | (size < 0x477ff000u ? finite : special));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
// The processor converts float16 itself, rounding as we do; the compiler does
// not know how to use that in a plain loop. (Highway has such a conversion for
// other targets, too, but not everywhere one that rounds to even.)
namespace hn = hwy::HWY_NAMESPACE;

struct Float16Lanes {
  using Tag = hn::ScalableTag<float>;
  using Stored = uint16_t;
  using Number = float;
  using Wide = hn::Vec<Tag>;
  using Rest = Float16;
  static constexpr size_t kLanes = HWY_LANES(float);
  using HalfTag = hn::Rebind<hwy::float16_t, Tag>;
  using BitsTag = hn::Rebind<uint16_t, Tag>;

  static HWY_INLINE Wide load(const Stored* from) {
    return hn::PromoteTo(Tag(),
                         hn::BitCast(HalfTag(), hn::LoadU(BitsTag(), from)));
  }
  static HWY_INLINE void store(Stored* to, Wide value) {
    hn::StoreU(hn::BitCast(BitsTag(), hn::DemoteTo(HalfTag(), value)),
               BitsTag(), to);
  }
  static HWY_INLINE Wide load_numbers(const Number* from) {
    return hn::LoadU(Tag(), from);
  }
  static HWY_INLINE void store_numbers(Number* to, Wide value) {
    hn::StoreU(value, Tag(), to);
  }
  static HWY_INLINE Wide wide_of(Number value) { return hn::Set(Tag(), value); }
  static HWY_INLINE Wide add(Wide a, Wide b) { return hn::Add(a, b); }
  static HWY_INLINE Wide multiply(Wide a, Wide b) { return hn::Mul(a, b); }
  static HWY_INLINE Wide min(Wide a, Wide b) {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
  static HWY_INLINE Wide max(Wide a, Wide b) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(a)), a, b);
  }
};
#else
using Float16Lanes = Float16;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#endif

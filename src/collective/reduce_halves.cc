// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/reduce_halves.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "collective/halves-inl.h"
#include "collective/reduce_kernels.h"
#include "collective/reduce_loops-inl.h"
#include "collective/reduce_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
namespace hn = hwy::HWY_NAMESPACE;

// Two bfloat16 lie in 32 bits, each the upper half of a float: in even and odd
// ones they come apart, and together again, without moving between lanes.
struct BFloat16Lanes {
  using Tag = hn::ScalableTag<float>;
  using BitsTag = hn::RebindToUnsigned<Tag>;
  using StoredTag = hn::Repartition<uint16_t, Tag>;
  using Floats = hn::Vec<Tag>;
  using Bits = hn::Vec<BitsTag>;
  struct Wide {
    Floats even;
    Floats odd;
  };
  using Stored = uint16_t;
  using Number = float;
  using Rest = BFloat16;
  static constexpr size_t kLanes = 2 * HWY_LANES(float);

  static HWY_INLINE Wide load(const Stored* from) {
    const Bits bits = hn::BitCast(BitsTag(), hn::LoadU(StoredTag(), from));
    return {hn::BitCast(Tag(), hn::ShiftLeft<16>(bits)),
            hn::BitCast(Tag(), hn::And(bits, upper_half()))};
  }
  static HWY_INLINE void store(Stored* to, Wide value) {
    const Bits both = hn::Or(hn::ShiftRight<16>(rounded(value.even)),
                             hn::And(rounded(value.odd), upper_half()));
    hn::StoreU(hn::BitCast(StoredTag(), both), StoredTag(), to);
  }
  static HWY_INLINE Wide load_numbers(const Number* from) {
    return {hn::LoadU(Tag(), from), hn::LoadU(Tag(), from + kLanes / 2)};
  }
  static HWY_INLINE void store_numbers(Number* to, Wide value) {
    hn::StoreU(value.even, Tag(), to);
    hn::StoreU(value.odd, Tag(), to + kLanes / 2);
  }
  static HWY_INLINE Wide wide_of(Number value) {
    return {hn::Set(Tag(), value), hn::Set(Tag(), value)};
  }
  static HWY_INLINE Wide add(Wide a, Wide b) {
    return {hn::Add(a.even, b.even), hn::Add(a.odd, b.odd)};
  }
  static HWY_INLINE Wide multiply(Wide a, Wide b) {
    return {hn::Mul(a.even, b.even), hn::Mul(a.odd, b.odd)};
  }
  static HWY_INLINE Wide min(Wide a, Wide b) {
    return {Float16Lanes::min(a.even, b.even), Float16Lanes::min(a.odd, b.odd)};
  }
  static HWY_INLINE Wide max(Wide a, Wide b) {
    return {Float16Lanes::max(a.even, b.even), Float16Lanes::max(a.odd, b.odd)};
  }

 private:
  static HWY_INLINE Bits upper_half() {
    return hn::Set(BitsTag(), 0xffff0000u);
  }
  // The upper half is the result.
  static HWY_INLINE Bits rounded(Floats value) {
    const BitsTag d;
    const Bits bits = hn::BitCast(d, value);
    const Bits odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const Bits number = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
    const Bits nan = hn::Or(bits, hn::Set(d, 0x400000));
    return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(value)), nan, number);
  }
};
#else
using BFloat16Lanes = BFloat16;
#endif

template <class Element>
Kernel half_kernel_of(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::kSum:
      return reduce_elements<Element, Sum>;
    case ReduceOp::kAverage:
      return reduce_elements<Element, Average>;
    case ReduceOp::kProduct:
      return reduce_elements<Element, Product>;
    case ReduceOp::kMin:
      return reduce_elements<Element, Min>;
    case ReduceOp::kMax:
      return reduce_elements<Element, Max>;
    case ReduceOp::kPremulSum:
      return reduce_elements<Element, PremulSum>;
    default:
      return nullptr;
  }
}

Kernel choose_half_kernel(ReduceOp::Kind kind, DType dtype) {
  return dtype == DType::kFloat16 ? half_kernel_of<Float16Lanes>(kind)
                                  : half_kernel_of<BFloat16Lanes>(kind);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(choose_half_kernel);

Kernel half_kernel(ReduceOp::Kind kind, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(choose_half_kernel)(kind, dtype);
}

}  // namespace lockstep::detail
#endif

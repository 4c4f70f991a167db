// SPDX-License-Identifier: Apache-2.0
// The operations, per target (no `#pragma once`: see Highway's foreach_target).
//
// An operation prepares each input, combines two and finishes the result. It
// is made for inputs [first, ...) of a reduction and works on Element::Wide,
// which is a number or a vector of them.
#if defined(LOCKSTEP_REDUCE_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_REDUCE_OPS_INL_H_
#undef LOCKSTEP_REDUCE_OPS_INL_H_
#else
#define LOCKSTEP_REDUCE_OPS_INL_H_
#endif

#include <type_traits>

#include <hwy/highway.h>

#include "collective/reduce_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

// What all elements share that are computed with one at a time, as N. An
// unsigned N wraps around.
template <class N>
struct Single {
  using Number = N;
  using Wide = N;
  static constexpr size_t kLanes = 1;
  // At least `unsigned`: two short factors would become signed ones.
  using Factor = std::common_type_t<N, unsigned>;

  static HWY_INLINE Wide wide_of(Number value) { return value; }
  static HWY_INLINE Wide load_numbers(const Number* from) { return *from; }
  static HWY_INLINE void store_numbers(Number* to, Wide value) { *to = value; }
  static HWY_INLINE Wide add(Wide a, Wide b) { return static_cast<N>(a + b); }
  static HWY_INLINE Wide multiply(Wide a, Wide b) {
    return static_cast<N>(Factor{a} * Factor{b});
  }
  // A NaN on either side wins. Not `||`: a branch keeps vectors away.
  static HWY_INLINE Wide min(Wide a, Wide b) {
    return ((a < b) | (a != a)) ? a : b;
  }
  static HWY_INLINE Wide max(Wide a, Wide b) {
    return ((b < a) | (a != a)) ? a : b;
  }
};

// What most operations do to an input and to the result: nothing.
template <class Element>
struct PlainOp {
  using Wide = typename Element::Wide;
  PlainOp(const Operands&, int) {}
  HWY_INLINE Wide prepare(Wide value, int) const { return value; }
  HWY_INLINE Wide finish(Wide value) const { return value; }
};

template <class Element>
struct Product : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) {
    return Element::multiply(a, b);
  }
};

template <class Element>
struct Min : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) { return Element::min(a, b); }
};

template <class Element>
struct Max : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) { return Element::max(a, b); }
};

// The sum, as Element defines it.
template <class Element>
struct Sum : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) { return Element::add(a, b); }
};

// For floating elements.
template <class Element>
struct Average : Sum<Element> {
  using typename PlainOp<Element>::Wide;
  using Number = typename Element::Number;
  Average(const Operands& o, int first)
      : Sum<Element>(o, first),
        scale(
            Element::wide_of(Number{1} / static_cast<Number>(o.input_count))) {}
  HWY_INLINE Wide finish(Wide value) const {
    return Element::multiply(value, scale);
  }
  Wide scale;
};

// For floating elements. The loops take at most four inputs at a time.
template <class Element>
struct PremulSum : Sum<Element> {
  using typename PlainOp<Element>::Wide;
  PremulSum(const Operands& o, int first)
      : Sum<Element>(o, first),
        factors{factor(o, first), factor(o, first + 1), factor(o, first + 2),
                factor(o, first + 3)} {}
  HWY_INLINE Wide prepare(Wide value, int which) const {
    return Element::multiply(value, factors[which]);
  }
  static HWY_INLINE Wide factor(const Operands& o, int which) {
    using Number = typename Element::Number;
    return Element::wide_of(which < o.input_count
                                ? static_cast<Number>(o.factors[which])
                                : Number{0});
  }
  Wide factors[4];
};

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#endif  // LOCKSTEP_REDUCE_OPS_INL_H_

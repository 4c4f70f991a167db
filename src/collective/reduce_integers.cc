// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/reduce_integers.cc"
#include <type_traits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "collective/reduce_kernels.h"
#include "collective/reduce_loops-inl.h"
#include "collective/reduce_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

// An integer stored as S and computed with as N. Where results may grow, N is
// unsigned: it has the bits that a signed N would have and overflow is defined.
template <class S, class N = S>
struct Integer : Single<N> {
  using Stored = S;
  static HWY_INLINE N load(const S* from) { return static_cast<N>(*from); }
  static HWY_INLINE void store(S* to, N value) { *to = static_cast<S>(value); }
};

// A byte that is true or false.
struct Truth : Integer<uint8_t> {
  static HWY_INLINE Wide load(const Stored* from) { return *from != 0; }
};

template <class Element>
struct And : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) {
    return static_cast<Wide>(a & b);
  }
};
template <class Element>
struct Or : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) {
    return static_cast<Wide>(a | b);
  }
};
template <class Element>
struct Xor : PlainOp<Element> {
  using typename PlainOp<Element>::Wide;
  using PlainOp<Element>::PlainOp;
  static HWY_INLINE Wide combine(Wide a, Wide b) {
    return static_cast<Wide>(a ^ b);
  }
};

// For elements of 64 bits: their sum as a signed number, divided toward zero.
template <class Element>
struct IntegerAverage : Sum<Element> {
  using typename PlainOp<Element>::Wide;
  IntegerAverage(const Operands& o, int first)
      : Sum<Element>(o, first), input_count(o.input_count) {}
  HWY_INLINE Wide finish(Wide value) const {
    return static_cast<Wide>(static_cast<int64_t>(value) / input_count);
  }
  int64_t input_count;
};

// For bits all integers are bytes, just more of them.
template <class T, template <class> class Op>
void reduce_bits(const Operands& o) {
  Operands bytes = o;
  bytes.begin *= sizeof(T);
  bytes.count *= sizeof(T);
  reduce_elements<Integer<uint8_t>, Op>(bytes);
}

template <class T>
Kernel integer_kernel_of(ReduceOp::Kind kind) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (kind) {
    case ReduceOp::kSum:
      return reduce_elements<Integer<Unsigned>, Sum>;
    case ReduceOp::kAverage:
      return reduce_elements<Integer<T, uint64_t>, IntegerAverage>;
    case ReduceOp::kProduct:
      return reduce_elements<Integer<Unsigned>, Product>;
    case ReduceOp::kMin:
      return reduce_elements<Integer<T>, Min>;
    case ReduceOp::kMax:
      return reduce_elements<Integer<T>, Max>;
    case ReduceOp::kBand:
      return reduce_bits<T, And>;
    case ReduceOp::kBor:
      return reduce_bits<T, Or>;
    case ReduceOp::kBxor:
      return reduce_bits<T, Xor>;
    default:
      return nullptr;
  }
}

Kernel bool_kernel_of(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBor:
      return reduce_elements<Truth, Or>;
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBand:
      return reduce_elements<Truth, And>;
    case ReduceOp::kBxor:
      return reduce_elements<Truth, Xor>;
    default:
      return nullptr;
  }
}

Kernel choose_integer_kernel(ReduceOp::Kind kind, DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return integer_kernel_of<int8_t>(kind);
    case DType::kUInt8:
      return integer_kernel_of<uint8_t>(kind);
    case DType::kInt16:
      return integer_kernel_of<int16_t>(kind);
    case DType::kInt32:
      return integer_kernel_of<int32_t>(kind);
    case DType::kInt64:
      return integer_kernel_of<int64_t>(kind);
    case DType::kBool:
      return bool_kernel_of(kind);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(choose_integer_kernel);

Kernel integer_kernel(ReduceOp::Kind kind, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(choose_integer_kernel)(kind, dtype);
}

}  // namespace lockstep::detail
#endif

// SPDX-License-Identifier: Apache-2.0
#include "collective/reduce_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collective/reduce_floats.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "collective/reduce_kernels.h"
#include "collective/reduce_loops-inl.h"
#include "collective/reduce_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {

// float and double are computed with as they lie in memory.
template <class T>
struct Float : Single<T> {
  using Stored = T;
  static HWY_INLINE T load(const T* from) { return *from; }
  static HWY_INLINE void store(T* to, T value) { *to = value; }
};

template <class T>
Kernel float_kernel_of(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::kSum:
      return reduce_elements<Float<T>, Sum>;
    case ReduceOp::kAverage:
      return reduce_elements<Float<T>, Average>;
    case ReduceOp::kProduct:
      return reduce_elements<Float<T>, Product>;
    case ReduceOp::kMin:
      return reduce_elements<Float<T>, Min>;
    case ReduceOp::kMax:
      return reduce_elements<Float<T>, Max>;
    case ReduceOp::kPremulSum:
      return reduce_elements<Float<T>, PremulSum>;
    default:
      return nullptr;
  }
}

Kernel choose_float_kernel(ReduceOp::Kind kind, DType dtype) {
  return dtype == DType::kFloat32 ? float_kernel_of<float>(kind)
                                  : float_kernel_of<double>(kind);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(choose_float_kernel);

Kernel float_kernel(ReduceOp::Kind kind, DType dtype) {
  return HWY_DYNAMIC_DISPATCH(choose_float_kernel)(kind, dtype);
}

}  // namespace lockstep::detail
#endif

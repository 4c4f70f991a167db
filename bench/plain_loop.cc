// SPDX-License-Identifier: Apache-2.0
#include "plain_loop.h"

#include <algorithm>

#include "collective/half.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

template <class T>
struct Same {
  using Stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct Float16 {
  using Stored = uint16_t;
  static float load(uint16_t bits) { return detail::float_of_float16(bits); }
  static uint16_t store(float value) { return detail::float16_of_float(value); }
};
struct BFloat16 {
  using Stored = uint16_t;
  static float load(uint16_t bits) { return detail::float_of_bfloat16(bits); }
  static uint16_t store(float value) {
    return detail::bfloat16_of_float(value);
  }
};

template <class Type, class Combine>
void loop(const void* a, const void* b, void* out, size_t count,
          Combine combine) {
  using Stored = typename Type::Stored;
  const auto* x = static_cast<const Stored*>(a);
  const auto* y = static_cast<const Stored*>(b);
  auto* z = static_cast<Stored*>(out);
  for (size_t i = 0; i < count; ++i) {
    z[i] = Type::store(combine(Type::load(x[i]), Type::load(y[i])));
  }
}

template <class Type>
void loop_of(const Reduction& reduction, const void* a, const void* b,
             void* out, size_t count) {
  using Number = decltype(Type::load({}));
  switch (reduction.kind) {
    case ReduceOp::kSum:
      return loop<Type>(a, b, out, count, [](Number x, Number y) {
        return static_cast<Number>(x + y);
      });
    case ReduceOp::kAverage:
      return loop<Type>(a, b, out, count, [](Number x, Number y) {
        return static_cast<Number>((x + y) / 2);
      });
    case ReduceOp::kProduct:
      return loop<Type>(a, b, out, count, [](Number x, Number y) {
        return static_cast<Number>(x * y);
      });
    case ReduceOp::kMax:
      return loop<Type>(a, b, out, count,
                        [](Number x, Number y) { return std::max(x, y); });
    case ReduceOp::kPremulSum: {
      const auto f = static_cast<Number>(reduction.factors[0]);
      const auto g = static_cast<Number>(reduction.factors[1]);
      return loop<Type>(a, b, out, count, [f, g](Number x, Number y) {
        return static_cast<Number>(x * f + y * g);
      });
    }
    default:
      LOCKSTEP_ASSERT(false);
  }
}

}  // namespace

void plain_loop(const Reduction& reduction, const void* a, const void* b,
                void* out, size_t count) {
  switch (reduction.dtype) {
    case DType::kFloat32:
      return loop_of<Same<float>>(reduction, a, b, out, count);
    case DType::kFloat64:
      return loop_of<Same<double>>(reduction, a, b, out, count);
    case DType::kFloat16:
      return loop_of<Float16>(reduction, a, b, out, count);
    case DType::kBFloat16:
      return loop_of<BFloat16>(reduction, a, b, out, count);
    case DType::kInt8:
      return loop_of<Same<int8_t>>(reduction, a, b, out, count);
    case DType::kInt32:
      return loop_of<Same<int32_t>>(reduction, a, b, out, count);
    case DType::kInt64:
      return loop_of<Same<int64_t>>(reduction, a, b, out, count);
    default:
      LOCKSTEP_ASSERT(false);
  }
}

}  // namespace lockstep::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// The words of every collective: what is combined (DType), how (ReduceOp) and
// where it lies (Buffer).
namespace lockstep {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool,  // one byte; anything but 0 counts as true, results are 0 or 1
};
constexpr int kDTypeCount = 10;

// Bytes of one element.
constexpr size_t size_of(DType dtype) {
  constexpr size_t kSizes[kDTypeCount] = {4, 8, 2, 2, 1, 1, 2, 4, 8, 1};
  return kSizes[static_cast<size_t>(dtype)];
}
const char* to_text(DType dtype);
bool is_floating(DType dtype);

// A run of `count` elements that somebody else owns.
struct Buffer {
  void* data = nullptr;
  size_t count = 0;
  DType dtype = DType::kFloat32;

  size_t bytes() const { return count * size_of(dtype); }
  // `length` elements from `offset` on.
  Buffer slice(size_t offset, size_t length) const;
};

// How the elements of all ranks become one. An operation is always carried out
// in the order of ranks, so every rank and every run gets the same bits.
//
//   group.all_reduce(buffer, ReduceOp::kSum);
//   group.all_reduce(buffer, ReduceOp::premul_sum(0.25));
//
// kAverage     the sum times 1/ranks; integers are summed in 64 bits and
//              divided toward zero
// kPremulSum   each rank's elements times that rank's own factor, then summed;
//              for floating types
// kMin, kMax   a NaN on any rank is a NaN in the result
// kBand, kBor, kBxor   for integers and bool
// bool         sum is "or", product is "and"; it has no average
//
// Half types are summed in float32 and rounded once, at the end. Integers wrap
// around.
class ReduceOp {
 public:
  enum Kind : uint8_t {
    kSum,
    kAverage,
    kProduct,
    kMin,
    kMax,
    kBand,
    kBor,
    kBxor,
    kPremulSum,
  };
  static constexpr int kKindCount = 9;

  constexpr ReduceOp(Kind kind = kSum) : kind_(kind) {}
  static constexpr ReduceOp premul_sum(double factor) {
    ReduceOp op(kPremulSum);
    op.factor_ = factor;
    return op;
  }
  // The factor is the one element of `factor`, read now.
  // Errors: UsageError when it has not exactly one floating element.
  static ReduceOp premul_sum(Buffer factor);

  constexpr Kind kind() const { return kind_; }
  constexpr double factor() const { return factor_; }

 private:
  Kind kind_;
  double factor_ = 1;
};

const char* to_text(ReduceOp::Kind kind);

// Whether `kind` is defined for `dtype`.
bool is_defined(ReduceOp::Kind kind, DType dtype);
// Errors: UsageError names the operation and the type when it is not.
void check_defined(ReduceOp::Kind kind, DType dtype);

namespace detail {
template <class T>
struct DTypeOf;
#define LOCKSTEP_DTYPE_OF(Type, Value)              \
  template <>                                       \
  struct DTypeOf<Type> {                            \
    static constexpr DType value = DType::k##Value; \
  }
LOCKSTEP_DTYPE_OF(float, Float32);
LOCKSTEP_DTYPE_OF(double, Float64);
LOCKSTEP_DTYPE_OF(int8_t, Int8);
LOCKSTEP_DTYPE_OF(uint8_t, UInt8);
LOCKSTEP_DTYPE_OF(int16_t, Int16);
LOCKSTEP_DTYPE_OF(int32_t, Int32);
LOCKSTEP_DTYPE_OF(int64_t, Int64);
LOCKSTEP_DTYPE_OF(bool, Bool);
#undef LOCKSTEP_DTYPE_OF
}  // namespace detail

// The buffer of `count` elements at `data`, typed by the pointer.
template <class T>
Buffer buffer_of(T* data, size_t count) {
  return {data, count, detail::DTypeOf<T>::value};
}
template <class T>
Buffer buffer_of(std::vector<T>& values) {
  return buffer_of(values.data(), values.size());
}

}  // namespace lockstep

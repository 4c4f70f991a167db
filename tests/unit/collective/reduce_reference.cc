// SPDX-License-Identifier: Apache-2.0
#include "unit/collective/reduce_reference.h"

#include <cstring>
#include <random>

#include "collective/half.h"

namespace lockstep::testing {
namespace {

template <class T>
T at(const void* memory, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(memory) + i * sizeof(T),
              sizeof(T));
  return value;
}
template <class T>
void put(Memory& memory, size_t i, T value) {
  std::memcpy(memory.data() + i * sizeof(T), &value, sizeof(T));
}

// Floating types by how they are loaded and stored.
struct AsFloat32 {
  using Number = float;
  static float load(const void* m, size_t i) { return at<float>(m, i); }
  static void store(Memory& m, size_t i, float v) { put(m, i, v); }
};
struct AsFloat64 {
  using Number = double;
  static double load(const void* m, size_t i) { return at<double>(m, i); }
  static void store(Memory& m, size_t i, double v) { put(m, i, v); }
};
struct AsFloat16 {
  using Number = float;
  static float load(const void* m, size_t i) {
    return detail::float_of_float16(at<uint16_t>(m, i));
  }
  static void store(Memory& m, size_t i, float v) {
    put(m, i, detail::float16_of_float(v));
  }
};
struct AsBFloat16 {
  using Number = float;
  static float load(const void* m, size_t i) {
    return detail::float_of_bfloat16(at<uint16_t>(m, i));
  }
  static void store(Memory& m, size_t i, float v) {
    put(m, i, detail::bfloat16_of_float(v));
  }
};

template <class Number>
Number combine_floats(ReduceOp::Kind kind, Number a, Number b) {
  switch (kind) {
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return a < b || a != a ? a : b;
    case ReduceOp::kMax:
      return a > b || a != a ? a : b;
    default:
      return a + b;
  }
}

template <class Type>
void reduce_floats(const Reduction& reduction,
                   const std::vector<Memory>& inputs, size_t count,
                   Memory& result) {
  using Number = typename Type::Number;
  for (size_t i = 0; i < count; ++i) {
    Number sum = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      // Volatile: a compiler may not make one step of this and the addition.
      volatile Number value = Type::load(inputs[k].data(), i);
      if (reduction.kind == ReduceOp::kPremulSum) {
        value = value * static_cast<Number>(reduction.factors[k]);
      }
      sum = k == 0 ? Number{value}
                   : combine_floats<Number>(reduction.kind, sum, value);
    }
    if (reduction.kind == ReduceOp::kAverage) {
      sum *= Number{1} / static_cast<Number>(inputs.size());
    }
    Type::store(result, i, sum);
  }
}

// All integers fit in 64 bits, and what wraps around there has the right bits
// when it is cut.
uint64_t combine_integers(ReduceOp::Kind kind, uint64_t a, uint64_t b) {
  const auto x = static_cast<int64_t>(a);
  const auto y = static_cast<int64_t>(b);
  switch (kind) {
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return x < y ? a : b;
    case ReduceOp::kMax:
      return x > y ? a : b;
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
    default:
      return a + b;
  }
}

template <class T>
void reduce_integers(const Reduction& reduction,
                     const std::vector<Memory>& inputs, size_t count,
                     Memory& result) {
  for (size_t i = 0; i < count; ++i) {
    uint64_t sum = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const auto value = static_cast<uint64_t>(at<T>(inputs[k].data(), i));
      sum = k == 0 ? value : combine_integers(reduction.kind, sum, value);
    }
    auto signed_sum = static_cast<int64_t>(sum);
    if (reduction.kind == ReduceOp::kAverage) {
      signed_sum /= static_cast<int64_t>(inputs.size());
    }
    put(result, i, static_cast<T>(signed_sum));
  }
}

void reduce_bools(const Reduction& reduction, const std::vector<Memory>& inputs,
                  size_t count, Memory& result) {
  for (size_t i = 0; i < count; ++i) {
    size_t truths = 0;
    for (const Memory& input : inputs)
      truths += at<uint8_t>(input.data(), i) != 0;
    bool value = truths > 0;
    if (reduction.kind == ReduceOp::kBxor) value = truths % 2 == 1;
    if (reduction.kind == ReduceOp::kBand || reduction.kind == ReduceOp::kMin ||
        reduction.kind == ReduceOp::kProduct) {
      value = truths == inputs.size();
    }
    put(result, i, static_cast<uint8_t>(value));
  }
}

}  // namespace

Memory reduce_reference(const Reduction& reduction,
                        const std::vector<Memory>& inputs, size_t count) {
  Memory result(count * size_of(reduction.dtype));
  const auto with = [&](auto* reduce_as) {
    reduce_as(reduction, inputs, count, result);
  };
  switch (reduction.dtype) {
    case DType::kFloat32:
      with(reduce_floats<AsFloat32>);
      break;
    case DType::kFloat64:
      with(reduce_floats<AsFloat64>);
      break;
    case DType::kFloat16:
      with(reduce_floats<AsFloat16>);
      break;
    case DType::kBFloat16:
      with(reduce_floats<AsBFloat16>);
      break;
    case DType::kInt8:
      with(reduce_integers<int8_t>);
      break;
    case DType::kUInt8:
      with(reduce_integers<uint8_t>);
      break;
    case DType::kInt16:
      with(reduce_integers<int16_t>);
      break;
    case DType::kInt32:
      with(reduce_integers<int32_t>);
      break;
    case DType::kInt64:
      with(reduce_integers<int64_t>);
      break;
    case DType::kBool:
      with(reduce_bools);
      break;
  }
  return result;
}

Memory some_elements(DType dtype, size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Memory memory(count * size_of(dtype));
  for (size_t i = 0; i + 8 <= memory.size(); i += 8) {
    put(memory, i / 8, uint64_t{random()});
  }
  for (size_t i = 0; i < count; ++i) {
    if (i % 16 == seed % 16) continue;  // stays as it is: any bits
    const auto small = static_cast<float>(random() % 8192) / 1024 - 4;
    if (dtype == DType::kFloat32) put(memory, i, small);
    if (dtype == DType::kFloat64) put(memory, i, static_cast<double>(small));
    if (dtype == DType::kFloat16) {
      put(memory, i, detail::float16_of_float(small));
    }
    if (dtype == DType::kBFloat16) {
      put(memory, i, detail::bfloat16_of_float(small));
    }
    if (dtype == DType::kBool && small < 0) put(memory, i, uint8_t{0});
  }
  return memory;
}

size_t first_difference(DType dtype, const void* a, const void* b,
                        size_t count) {
  const size_t size = size_of(dtype);
  if (std::memcmp(a, b, count * size) == 0) return count;
  const auto is_nan = [dtype](const void* m, size_t i) {
    switch (dtype) {
      case DType::kFloat32:
        return AsFloat32::load(m, i) != AsFloat32::load(m, i);
      case DType::kFloat64:
        return AsFloat64::load(m, i) != AsFloat64::load(m, i);
      case DType::kFloat16:
        return AsFloat16::load(m, i) != AsFloat16::load(m, i);
      case DType::kBFloat16:
        return AsBFloat16::load(m, i) != AsBFloat16::load(m, i);
      default:
        return false;
    }
  };
  for (size_t i = 0; i < count; ++i) {
    const bool same =
        std::memcmp(static_cast<const std::byte*>(a) + i * size,
                    static_cast<const std::byte*>(b) + i * size, size) == 0;
    if (!same && !(is_nan(a, i) && is_nan(b, i))) return i;
  }
  return count;
}

}  // namespace lockstep::testing

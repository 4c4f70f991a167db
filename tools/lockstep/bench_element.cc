// SPDX-License-Identifier: Apache-2.0
#include "bench_element.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lockstep::tool {
namespace {

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// The upper bits of a float32, of which `dropped` go, to nearest, ties to even.
uint32_t rounded(uint32_t bits, int dropped) {
  const uint32_t half = (1U << (dropped - 1)) - 1;
  return (bits + half + ((bits >> dropped) & 1)) >> dropped;
}

// Float16 has 5 bits of exponent where float32 has 8, with a bias of 15 for
// 127. Our numbers are 0, or in its normal range, and not negative.
constexpr uint32_t kRebias = (127 - 15) << 23;

uint16_t float16_bits(float value) {
  if (value == 0) return 0;
  return static_cast<uint16_t>(rounded(bits_as<uint32_t>(value) - kRebias, 13));
}

double number_of_float16(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const double fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return std::numeric_limits<double>::quiet_NaN();  // none of our numbers
  }
  const double size = exponent == 0
                          ? std::ldexp(fraction, -24)
                          : std::ldexp(1024 + fraction, exponent - 25);
  return (bits >> 15) != 0 ? -size : size;
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A floating element as a number.
double number_at(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return read<double>(at);
    case DType::kFloat16:
      return number_of_float16(read<uint16_t>(at));
    case DType::kBFloat16:
      return static_cast<double>(
          bits_as<float>(uint32_t{read<uint16_t>(at)} << 16));
    default:
      return static_cast<double>(read<float>(at));
  }
}

// Bits of the fraction, with the one that is not written.
int precision_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 53;
    case DType::kFloat16:
      return 11;
    case DType::kBFloat16:
      return 8;
    default:
      return 24;
  }
}

}  // namespace

void put_element(std::byte* at, DType dtype, double value) {
  const auto small = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat32:
      std::memcpy(at, &small, sizeof small);
      return;
    case DType::kFloat64:
      std::memcpy(at, &value, sizeof value);
      return;
    case DType::kFloat16: {
      const uint16_t bits = float16_bits(small);
      std::memcpy(at, &bits, sizeof bits);
      return;
    }
    case DType::kBFloat16: {
      const auto bits =
          static_cast<uint16_t>(rounded(bits_as<uint32_t>(small), 16));
      std::memcpy(at, &bits, sizeof bits);
      return;
    }
    default: {  // the low bytes of an integer come first
      const auto whole = static_cast<int64_t>(value);
      std::memcpy(at, &whole, size_of(dtype));
    }
  }
}

bool is_near(const std::byte* at, DType dtype, double value) {
  const double error = std::abs(number_at(at, dtype) - value);
  return error <= std::ldexp(std::abs(value), 2 - precision_of(dtype));
}

}  // namespace lockstep::tool

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

// The two 16-bit floating types, one element at a time: the plain form that
// the vector kernels are tested against. Rounding is to nearest, ties to even;
// a NaN stays a NaN.
namespace lockstep::detail {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// bfloat16 is the upper half of a float32.
inline float float_of_bfloat16(uint16_t bits) {
  return float_of_bits(uint32_t{bits} << 16);
}
inline uint16_t bfloat16_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// float16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float float_of_float16(uint16_t bits);
uint16_t float16_of_float(float value);

}  // namespace lockstep::detail

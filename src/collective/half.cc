// SPDX-License-Identifier: Apache-2.0
#include "collective/half.h"

namespace lockstep::detail {
namespace {

constexpr int kMantissaShift = 23 - 10;  // float32 has 13 bits more
constexpr uint32_t kBiasShift = (127 - 15) << 23;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuietBit = 0x00400000;  // what tells a NaN from a trap
constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14, in float16
constexpr uint32_t kOverflow = 0x477ff000;  // 65520, halfway past the largest

}  // namespace

float float_of_float16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: a whole number of 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return float_of_bits(sign | bits_of_float(value));
  }
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? kQuietBit : 0;
    return float_of_bits(sign | kInfinity | quiet | mantissa << kMantissaShift);
  }
  return float_of_bits(
      sign | ((exponent << 23 | mantissa << kMantissaShift) + kBiasShift));
}

uint16_t float16_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t size = bits & 0x7fffffffu;  // without the sign
  uint32_t half;
  if (size > kInfinity) {
    half = 0x7e00u | ((size >> kMantissaShift) & 0x3ffu);
  } else if (size >= kOverflow) {
    half = 0x7c00u;
  } else if (size >= kSmallestNormal) {
    // Adding just under half a unit, and one more when the kept part is odd,
    // carries exactly when the value has to go up.
    const uint32_t odd = (size >> kMantissaShift) & 1u;
    half = (size - kBiasShift + 0xfffu + odd) >> kMantissaShift;
  } else {
    // From 0.5 on floats are 2^-24 apart, as subnormals of float16 are, so this
    // addition rounds as we need it.
    half = bits_of_float(float_of_bits(size) + 0.5f) - bits_of_float(0.5f);
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace lockstep::detail

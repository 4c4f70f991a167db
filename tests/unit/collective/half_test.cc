// SPDX-License-Identifier: Apache-2.0
#include "collective/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

constexpr uint32_t kPatterns = 1 << 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint16_t half_of(uint32_t bits) { return static_cast<uint16_t>(bits); }
float after(float value) { return std::nextafter(value, kInfinity); }
float before(float value) { return std::nextafter(value, -kInfinity); }

// One of the two types, by its numbers: 1 sign bit, then the exponent.
struct Format {
  const char* name;
  int mantissa_bits;
  int bias;
  float (*to_float)(uint16_t);
  uint16_t (*of_float)(float);

  uint16_t infinity() const {
    return half_of(0x7fff >> mantissa_bits << mantissa_bits);
  }
  bool is_nan(uint16_t bits) const { return (bits & 0x7fff) > infinity(); }

  // What the bits stand for, by definition.
  double value_of(uint16_t bits) const {
    const int exponent = (bits & 0x7fff) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int scale = std::max(exponent, 1) - bias - mantissa_bits;
    const int hidden = exponent == 0 ? 0 : 1 << mantissa_bits;
    const double size = std::ldexp(mantissa + hidden, scale);
    return bits & 0x8000 ? -size : size;
  }
};

class Half : public ::testing::TestWithParam<Format> {};

TEST_P(Half, BecomesTheFloatOfEqualValueForAllPatterns) {
  const Format& format = GetParam();
  for (uint32_t i = 0; i < kPatterns; ++i) {
    const uint16_t bits = half_of(i);
    const float value = format.to_float(bits);
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
    if (format.is_nan(bits)) {
      ASSERT_TRUE(std::isnan(value)) << i;
    } else if ((bits & 0x7fff) == format.infinity()) {
      ASSERT_TRUE(std::isinf(value)) << i;
    } else {
      ASSERT_EQ(static_cast<double>(value), format.value_of(bits)) << i;
    }
  }
}

TEST_P(Half, SurvivesTheWayToFloatAndBackForAllPatterns) {
  const Format& format = GetParam();
  for (uint32_t i = 0; i < kPatterns; ++i) {
    const uint16_t bits = half_of(i);
    const uint16_t back = format.of_float(format.to_float(bits));
    if (format.is_nan(bits)) {
      ASSERT_TRUE(format.is_nan(back)) << i;
    } else {
      ASSERT_EQ(back, bits) << i;
    }
  }
}

// Between each two neighbours: what is nearer wins, and in the middle the even
// one. The upper neighbour of the largest is where infinity would be if the
// format went on.
TEST_P(Half, IsTheNearestOneAndOfTwoEquallyNearTheEven) {
  const Format& format = GetParam();
  for (uint16_t low = 0; low < format.infinity(); ++low) {
    const uint16_t high = half_of(low + 1u);
    const uint16_t even = low % 2 == 0 ? low : high;
    const double middle = (format.value_of(low) + format.value_of(high)) / 2;
    const float exact = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(exact), middle);
    for (const int sign : {0, 0x8000}) {
      const auto of = [&](float size) {
        return format.of_float(sign != 0 ? -size : size);
      };
      ASSERT_EQ(of(after(format.to_float(low))), low | sign) << low;
      ASSERT_EQ(of(before(exact)), low | sign) << low;
      ASSERT_EQ(of(exact), even | sign) << low;
      ASSERT_EQ(of(after(exact)), high | sign) << low;
      if (high == format.infinity()) continue;
      ASSERT_EQ(of(before(format.to_float(high))), high | sign) << low;
    }
  }
}

TEST_P(Half, KeepsInfinitiesAndNans) {
  const Format& format = GetParam();
  EXPECT_EQ(format.of_float(kInfinity), format.infinity());
  EXPECT_EQ(format.of_float(-kInfinity), format.infinity() | 0x8000);
  EXPECT_EQ(format.of_float(std::numeric_limits<float>::max()),
            format.infinity());
  // Payloads in the lowest and the highest bits, which rounding could lose or
  // carry out of.
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0x7fc00000u}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint16_t half = format.of_float(float_of_bits(bits | sign));
      EXPECT_TRUE(format.is_nan(half)) << bits;
      EXPECT_EQ(half >> 15, sign >> 31) << bits;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, Half,
    ::testing::Values(
        Format{"float16", 10, 15, float_of_float16, float16_of_float},
        Format{"bfloat16", 7, 127, float_of_bfloat16, bfloat16_of_float}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep::detail

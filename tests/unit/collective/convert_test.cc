// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/convert.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "collective/half.h"

namespace lockstep {
namespace {

struct HalfType {
  DType dtype;
  float (*to_float)(uint16_t);
  uint16_t (*of_float)(float);
};

class Convert : public ::testing::TestWithParam<HalfType> {};
INSTANTIATE_TEST_SUITE_P(
    Types, Convert,
    ::testing::Values(HalfType{DType::kFloat16, detail::float_of_float16,
                               detail::float16_of_float},
                      HalfType{DType::kBFloat16, detail::float_of_bfloat16,
                               detail::bfloat16_of_float}));

bool are_same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Of any bits, with lengths that leave a rest behind whole vectors.
std::vector<float> any_floats(size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<float> values(count);
  for (float& one : values) one = detail::float_of_bits(random());
  for (size_t i = 0; i < count; i += 2) {  // most bits are no 16-bit number
    values[i] = std::ldexp(static_cast<float>(random() % 4096) - 2048,
                           static_cast<int>(random() % 50) - 40);
  }
  return values;
}

TEST_P(Convert, NarrowsAsTheScalarConversionDoes) {
  for (const size_t count : {0U, 1U, 7U, 16U, 33U, 1000U, 4099U}) {
    for (const float factor : {1.F, 0.25F, 1.F / 3}) {
      const std::vector<float> from = any_floats(count);
      std::vector<uint16_t> to(count + 1, 0xabcd);
      narrow(from.data(), {to.data(), count, GetParam().dtype}, factor);
      for (size_t i = 0; i < count; ++i) {
        const uint16_t expected = GetParam().of_float(from[i] * factor);
        ASSERT_TRUE(
            are_same(GetParam().to_float(to[i]), GetParam().to_float(expected)))
            << from[i] << " * " << factor << " at " << i << " of " << count;
      }
      EXPECT_EQ(to[count], 0xabcd);
    }
  }
}

TEST_P(Convert, WidensEveryPatternExactly) {
  std::vector<uint16_t> from(1 << 16);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
  std::vector<float> to(from.size());
  for (const size_t count : {size_t{1}, size_t{13}, from.size()}) {
    widen({from.data(), count, GetParam().dtype}, to.data());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(are_same(to[i], GetParam().to_float(from[i]))) << i;
    }
  }
}

}  // namespace
}  // namespace lockstep

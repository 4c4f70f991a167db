// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/finite.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "collective/half.h"

namespace lockstep {
namespace {

template <class T>
void expect_found(DType dtype, const std::vector<T>& bad, T good) {
  for (const size_t count : {1U, 7U, 64U, 2047U, 2048U, 5000U}) {
    std::vector<T> values(count, good);
    const Buffer buffer{values.data(), count, dtype};
    EXPECT_EQ(first_non_finite(buffer), count);
    for (const T value : bad) {
      for (const size_t place : {size_t{0}, count / 2, count - 1}) {
        values[place] = value;
        EXPECT_EQ(first_non_finite(buffer), place);
        values[count - 1] = value;  // the first counts
        EXPECT_EQ(first_non_finite(buffer), place);
        values[place] = values[count - 1] = good;
      }
    }
  }
}

template <class T>
std::vector<T> bad_values() {
  using Limits = std::numeric_limits<T>;
  return {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
          -Limits::quiet_NaN()};
}

TEST(Finite, FindsInfinityAndNanOfEveryType) {
  expect_found<float>(DType::kFloat32, bad_values<float>(),
                      std::numeric_limits<float>::lowest());
  expect_found<double>(DType::kFloat64, bad_values<double>(),
                       std::numeric_limits<double>::max());
  expect_found<uint16_t>(DType::kFloat16, {0x7c00, 0xfc00, 0x7e00, 0xfc01},
                         0x7bff);
  expect_found<uint16_t>(DType::kBFloat16, {0x7f80, 0xff80, 0x7fc0, 0xff81},
                         0xff7f);
}

TEST(Finite, TakesIntegersForFinite) {
  std::vector<int32_t> values = {0x7f800000, -1};
  EXPECT_EQ(first_non_finite(buffer_of(values)), 2U);
  EXPECT_EQ(first_non_finite({nullptr, 0, DType::kFloat32}), 0U);
}

}  // namespace
}  // namespace lockstep

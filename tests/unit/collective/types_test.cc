// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/types.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(DType, KnowsItsSizeAndName) {
  EXPECT_EQ(size_of(DType::kFloat32), 4u);
  EXPECT_EQ(size_of(DType::kFloat64), 8u);
  EXPECT_EQ(size_of(DType::kFloat16), 2u);
  EXPECT_EQ(size_of(DType::kBFloat16), 2u);
  EXPECT_EQ(size_of(DType::kInt8), 1u);
  EXPECT_EQ(size_of(DType::kUInt8), 1u);
  EXPECT_EQ(size_of(DType::kInt16), 2u);
  EXPECT_EQ(size_of(DType::kInt32), 4u);
  EXPECT_EQ(size_of(DType::kInt64), 8u);
  EXPECT_EQ(size_of(DType::kBool), 1u);
  EXPECT_STREQ(to_text(DType::kFloat32), "float32");
  EXPECT_STREQ(to_text(DType::kBool), "bool");
}

TEST(DType, IsFloatingOrNot) {
  EXPECT_TRUE(is_floating(DType::kFloat64));
  EXPECT_TRUE(is_floating(DType::kBFloat16));
  EXPECT_FALSE(is_floating(DType::kInt64));
  EXPECT_FALSE(is_floating(DType::kBool));
}

TEST(Buffer, IsTypedByItsPointer) {
  std::vector<int16_t> values = {1, 2, 3};
  const Buffer buffer = buffer_of(values);
  EXPECT_EQ(buffer.data, values.data());
  EXPECT_EQ(buffer.count, 3u);
  EXPECT_EQ(buffer.dtype, DType::kInt16);
  EXPECT_EQ(buffer.bytes(), 6u);
}

TEST(Buffer, HasSlicesOfElements) {
  std::vector<double> values = {1, 2, 3, 4};
  const Buffer slice = buffer_of(values).slice(1, 2);
  EXPECT_EQ(slice.data, &values[1]);
  EXPECT_EQ(slice.count, 2u);
  EXPECT_EQ(slice.dtype, DType::kFloat64);
  EXPECT_EQ(buffer_of(values).slice(4, 0).count, 0u);
}

TEST(ReduceOp, TakesItsFactorFromAnyFloatingElement) {
  float f32 = 0.25f;
  double f64 = 0.1;
  uint16_t f16 = 0x3800;   // 0.5
  uint16_t bf16 = 0x4040;  // 3
  EXPECT_EQ(ReduceOp::premul_sum({&f32, 1, DType::kFloat32}).factor(), 0.25);
  EXPECT_EQ(ReduceOp::premul_sum({&f64, 1, DType::kFloat64}).factor(), 0.1);
  EXPECT_EQ(ReduceOp::premul_sum({&f16, 1, DType::kFloat16}).factor(), 0.5);
  EXPECT_EQ(ReduceOp::premul_sum({&bf16, 1, DType::kBFloat16}).factor(), 3);
  EXPECT_EQ(ReduceOp::premul_sum(2).kind(), ReduceOp::kPremulSum);
}

TEST(ReduceOp, RefusesAFactorThatIsNotOneFloatingElement) {
  std::vector<float> two = {1, 2};
  std::vector<int32_t> integer = {1};
  EXPECT_THROW(ReduceOp::premul_sum(buffer_of(two)), UsageError);
  EXPECT_THROW(ReduceOp::premul_sum(buffer_of(integer)), UsageError);
}

TEST(ReduceOp, IsDefinedWhereItMakesSense) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool floating = is_floating(dtype);
    for (const auto kind :
         {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
      EXPECT_TRUE(is_defined(kind, dtype)) << to_text(dtype);
    }
    for (const auto kind : {ReduceOp::kBand, ReduceOp::kBor, ReduceOp::kBxor}) {
      EXPECT_EQ(is_defined(kind, dtype), !floating) << to_text(dtype);
    }
    EXPECT_EQ(is_defined(ReduceOp::kAverage, dtype), dtype != DType::kBool);
    EXPECT_EQ(is_defined(ReduceOp::kPremulSum, dtype), floating);
  }
}

TEST(ReduceOp, NamesOperationAndTypeWhenItIsNotDefined) {
  const std::string message = testing::message_of<UsageError>(
      [] { check_defined(ReduceOp::kBxor, DType::kFloat16); });
  EXPECT_THAT(message, HasSubstr("bxor"));
  EXPECT_THAT(message, HasSubstr("float16"));
  EXPECT_NO_THROW(check_defined(ReduceOp::kBxor, DType::kBool));
}

}  // namespace
}  // namespace lockstep

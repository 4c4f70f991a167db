// SPDX-License-Identifier: Apache-2.0
#include "bench_data.h"

#include <cmath>

#include <gmock/gmock.h>

#include "lockstep/collective/reduce.h"

namespace lockstep::tool {
namespace {

constexpr size_t kCount = 3 * BenchData::kPeriod + 7;

// The inputs of all ranks, and the library's reduction of them.
struct Reduced {
  Reduced(const BenchData& data, DType dtype, ReduceOp::Kind kind, int ranks)
      : result(kCount * size_of(dtype)) {
    std::vector<ByteVector> inputs;
    std::vector<const void*> pointers;
    for (int rank = 0; rank < ranks; ++rank) {
      inputs.emplace_back(result.size());
      data.fill({inputs.back().data(), kCount, dtype}, rank);
    }
    pointers.reserve(inputs.size());
    for (const auto& input : inputs) pointers.push_back(input.data());
    const std::vector<double> factors(inputs.size(), data.op().factor());
    void* const out = result.data();
    reduce({kind, dtype, factors.data()}, pointers.data(), ranks, &out, 1,
           kCount);
  }
  ByteVector result;
};

TEST(BenchData, AgreesWithTheLibraryInEveryTypeAndOperation) {
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int kind = 0; kind < ReduceOp::kKindCount; ++kind) {
      const auto dtype = static_cast<DType>(type);
      const auto op = static_cast<ReduceOp::Kind>(kind);
      if (!is_defined(op, dtype)) continue;
      for (const int ranks : {1, 2, 3, 7, 49, 200}) {
        const BenchData data(dtype, op, ranks, 5);
        Reduced reduced(data, dtype, op, ranks);
        EXPECT_EQ(data.wrong_result({reduced.result.data(), kCount, dtype}), 0U)
            << to_text(op) << " of " << to_text(dtype) << ", " << ranks;
      }
    }
  }
}

TEST(BenchData, CountsEveryElementThatIsWrong) {
  const BenchData data(DType::kFloat32, ReduceOp::kSum, 2, 1);
  Reduced reduced(data, DType::kFloat32, ReduceOp::kSum, 2);
  auto* const values = reinterpret_cast<float*>(reduced.result.data());
  const Buffer buffer = buffer_of(values, kCount);
  ASSERT_EQ(data.wrong_result(buffer), 0U);
  values[0] += 1;
  EXPECT_EQ(data.wrong_result(buffer), 1U);
  values[BenchData::kPeriod] = std::nextafter(values[BenchData::kPeriod], 99.F);
  EXPECT_EQ(data.wrong_result(buffer), 2U);
  values[kCount - 1] = NAN;
  EXPECT_EQ(data.wrong_result(buffer), 3U);
}

TEST(BenchData, AnAverageMayBeRoundedAndNoMore) {
  const BenchData data(DType::kFloat32, ReduceOp::kAverage, 3, 1);
  Reduced reduced(data, DType::kFloat32, ReduceOp::kAverage, 3);
  auto* const values = reinterpret_cast<float*>(reduced.result.data());
  const Buffer buffer = buffer_of(values, kCount);
  size_t at = 0;
  while (values[at] == 0) ++at;
  values[at] = std::nextafter(values[at], 99.F);
  EXPECT_EQ(data.wrong_result(buffer), 0U);
  values[at] *= 1.00001F;
  EXPECT_EQ(data.wrong_result(buffer), 1U);
  values[at] = NAN;
  EXPECT_EQ(data.wrong_result(buffer), 1U);
}

TEST(BenchData, TellsRanksPartsAndSeedsApart) {
  const BenchData data(DType::kInt32, ReduceOp::kSum, 4, 1);
  std::vector<int32_t> values(1000);
  const Buffer buffer = buffer_of(values);
  data.fill(buffer, 2, 100);
  EXPECT_EQ(data.wrong_input(buffer, 2, 100), 0U);
  EXPECT_EQ(data.wrong_input(buffer.slice(50, 10), 2, 150), 0U);
  EXPECT_GT(data.wrong_input(buffer, 1, 100), 500U);
  EXPECT_GT(data.wrong_input(buffer, 2, 101), 500U);
  const BenchData other(DType::kInt32, ReduceOp::kSum, 4, 2);
  EXPECT_GT(other.wrong_input(buffer, 2, 100), 500U);
}

}  // namespace
}  // namespace lockstep::tool

// SPDX-License-Identifier: Apache-2.0
#include "hook/power_sgd_cut.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "unit/hook/hook_buckets.h"

namespace lockstep::detail {
namespace {

using hooks::PowerSgdOptions;
using testing::make_bucket;

PowerSgdOptions with_rank(int rank, double rate = 2) {
  PowerSgdOptions options;
  options.rank = rank;
  options.min_compression_rate = rate;
  return options;
}

GradBucket bucket_of(const std::vector<at::Tensor>& parameters) {
  auto contents = std::make_shared<GradBucket::Contents>();
  int64_t offset = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    contents->members.push_back({10 + i, offset, parameters[i].numel()});
    contents->parameters.push_back(parameters[i]);
    offset += parameters[i].numel();
  }
  return {3, 5, at::zeros({offset}), contents};
}

TEST(PowerSgdCut, CompressesWhatSavesMoreThanTheRate) {
  EXPECT_EQ(rank_for(100, 100, with_rank(24)), 24);
  EXPECT_EQ(rank_for(100, 100, with_rank(25)), 0);  // 200 * 25 * 2 = 10000
  EXPECT_EQ(rank_for(100, 100, with_rank(25, 1.99)), 25);
  EXPECT_EQ(rank_for(1000, 1, with_rank(1)), 0);
  EXPECT_EQ(rank_for(0, 0, with_rank(1)), 0);
}

TEST(PowerSgdCut, ARankIsNeverLargerThanTheMatrix) {
  EXPECT_EQ(rank_for(3, 50, with_rank(4, 0.1)), 3);
}

TEST(PowerSgdCut, ParametersAreMatricesOrTheRest) {
  const GradBucket bucket =
      bucket_of({at::ones({40, 30}), at::ones({40}), at::ones({8, 5, 3, 3}),
                 at::ones({2, 2}), at::ones({}), at::ones({0, 7})});
  const BucketCut cut = cut_by_parameter(bucket, with_rank(2, 1.2));
  ASSERT_EQ(cut.matrices.size(), 2U);
  EXPECT_EQ(cut.matrices[0].key, 10U);
  EXPECT_EQ(cut.matrices[0].rows, 40);
  EXPECT_EQ(cut.matrices[0].cols, 30);
  EXPECT_EQ(cut.matrices[1].key, 12U);
  EXPECT_EQ(cut.matrices[1].offset, 1240);
  EXPECT_EQ(cut.matrices[1].rows, 8);
  EXPECT_EQ(cut.matrices[1].cols, 45);
  ASSERT_EQ(cut.rest.size(), 3U);
  EXPECT_EQ(cut.rest[0].offset, 1200);
  EXPECT_EQ(cut.rest[0].length, 40);
  EXPECT_EQ(cut.rest[2].length, 1);
  EXPECT_EQ(elements_sent(cut, with_rank(2, 1.2)),
            2 * (40 + 30) + 2 * (8 + 45) + 40 + 4 + 1);
}

TEST(PowerSgdCut, RowsOfATransposedParameterAreItsColumns) {
  const BucketCut cut =
      cut_by_parameter(bucket_of({at::ones({40, 30}).t()}), with_rank(1));
  ASSERT_EQ(cut.matrices.size(), 1U);
  EXPECT_EQ(cut.matrices[0].rows, 40);
  EXPECT_EQ(cut.matrices[0].cols, 30);
}

TEST(PowerSgdCut, LeavesOutWhatNoRankUses) {
  GradBucket bucket =
      bucket_of({at::ones({40, 30}), at::ones({40, 30}), at::ones({4})});
  bucket.set_used({false, true, false});
  const BucketCut cut = cut_by_parameter(bucket, with_rank(1));
  ASSERT_EQ(cut.matrices.size(), 1U);
  EXPECT_EQ(cut.matrices[0].key, 11U);
  EXPECT_TRUE(cut.rest.empty());
}

TEST(PowerSgdCut, ASquareTakesTheWholeBucketButAPartOfARow) {
  for (const int64_t count : {100, 101, 109, 110, 111, 120, 121}) {
    const BucketCut cut =
        cut_as_square(make_bucket(3, 5, {{0, count}}), with_rank(1));
    ASSERT_EQ(cut.matrices.size(), 1U) << count;
    const MatrixPlace& matrix = cut.matrices[0];
    EXPECT_EQ(matrix.key, 3U);
    EXPECT_LE(matrix.cols - matrix.rows, 2);
    const int64_t used = matrix.rows * matrix.cols;
    EXPECT_EQ(cut.rest.size(), used == count ? 0U : 1U);
    EXPECT_LT(count - used, matrix.cols);
    if (used < count) {
      EXPECT_EQ(cut.rest[0].offset, used);
      EXPECT_EQ(cut.rest[0].length, count - used);
    }
  }
}

TEST(PowerSgdCut, ASmallSquareIsNotCompressed) {
  EXPECT_TRUE(cut_as_square(make_bucket(0, 1, {{0, 16}}), with_rank(1))
                  .matrices.empty());
  EXPECT_TRUE(cut_as_square(make_bucket(0, 1, {{0, 0}}), with_rank(1))
                  .matrices.empty());
}

}  // namespace
}  // namespace lockstep::detail

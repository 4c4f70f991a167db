// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/tensor/tensor_ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::on_ranks;

// Row `rank` and the last row, so that ranks share one entry.
at::Tensor rows_of(int rank, int ranks, at::ScalarType type) {
  const at::Tensor indices = at::tensor({rank, ranks}, at::kLong).view({1, 2});
  const at::Tensor values = at::ones({2, 3}, type) * (rank + 1);
  return at::sparse_coo_tensor(indices, values, {ranks + 1, 3});
}

at::Tensor dense_sum(int ranks, at::ScalarType type) {
  at::Tensor sum = at::zeros({ranks + 1, 3}, type);
  for (int rank = 0; rank < ranks; ++rank) {
    sum += rows_of(rank, ranks, type).to_dense();
  }
  return sum;
}

TEST(SparseAllReduce, AddsEntriesThatRanksShare) {
  for (const auto type :
       {at::kFloat, at::kDouble, at::kLong, at::kComplexFloat}) {
    on_ranks(3, [&](ProcessGroup& group) {
      const at::Tensor x = rows_of(group.rank(), 3, type);
      all_reduce(group, x)->wait();
      EXPECT_TRUE(x.is_coalesced());
      EXPECT_EQ(x._nnz(), 4);
      EXPECT_TRUE(at::equal(x.to_dense(), dense_sum(3, type)));
      EXPECT_EQ(group.sequence_number(), 1);
    });
  }
}

// An empty tensor, as one makes it, has all dimensions sparse; a gradient of an
// embedding has one.
TEST(SparseAllReduce, ARankWithoutEntriesFitsTheOthers) {
  for (const int empty : {0, 2}) {
    on_ranks(3, [&](ProcessGroup& group) {
      at::Tensor x = rows_of(1, 3, at::kFloat);
      if (group.rank() == empty) {
        x = at::empty({4, 3}, at::TensorOptions().layout(at::kSparse));
      }
      all_reduce(group, x)->wait();
      EXPECT_TRUE(
          at::equal(x.to_dense(), rows_of(1, 3, at::kFloat).to_dense() * 2));
      EXPECT_EQ(x.sparse_dim(), 1);
    });
  }
}

TEST(SparseAllReduce, AveragesFloatsAndDividesIntegersTowardZero) {
  on_ranks(3, [](ProcessGroup& group) {
    const at::Tensor x = rows_of(group.rank(), 3, at::kDouble);
    all_reduce(group, x, ReduceOp::kAverage)->wait();
    EXPECT_TRUE(at::equal(x.to_dense(), dense_sum(3, at::kDouble) / 3));
    const at::Tensor n = rows_of(group.rank(), 3, at::kInt);
    all_reduce(group, n, ReduceOp::kAverage)->wait();
    EXPECT_EQ(n.to_dense()[3][0].item<int>(), 2);
    EXPECT_EQ(n.to_dense()[1][0].item<int>(), 0);
  });
}

TEST(SparseAllReduce, RanksMayHaveNoEntriesOrDifferentNumbers) {
  on_ranks(4, [](ProcessGroup& group) {
    const int rank = group.rank();
    const at::Tensor indices = at::arange(rank, at::kLong).view({1, rank});
    const at::Tensor x =
        at::sparse_coo_tensor(indices, at::ones({rank}, at::kFloat), {10});
    all_reduce(group, x)->wait();
    const at::Tensor expected = at::zeros({10});
    expected[0] = 3;
    expected[1] = 2;
    expected[2] = 1;
    EXPECT_TRUE(at::equal(x.to_dense(), expected));
    const at::Tensor nothing = at::sparse_coo_tensor({5, 2}, at::kFloat);
    all_reduce(group, nothing)->wait();
    EXPECT_EQ(nothing._nnz(), 0);
    EXPECT_TRUE(at::equal(nothing.to_dense(), at::zeros({5, 2})));
  });
}

TEST(SparseAllReduce, SeveralSparseAndDenseDimensions) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor dense = at::zeros({3, 4, 2, 2});
    dense[1][group.rank()] = group.rank() + 1;
    dense[2][3] = 5;
    const at::Tensor x = dense.to_sparse(2);
    all_reduce(group, x)->wait();
    const at::Tensor expected = at::zeros({3, 4, 2, 2});
    expected[1][0] = 1;
    expected[1][1] = 2;
    expected[2][3] = 10;
    EXPECT_EQ(x.sparse_dim(), 2);
    EXPECT_EQ(x.dense_dim(), 2);
    EXPECT_TRUE(at::equal(x.to_dense(), expected));
  });
}

TEST(SparseAllReduce, EntriesGivenTwiceAreAddedFirst) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x =
        at::sparse_coo_tensor(at::zeros({1, 3}, at::kLong), at::ones({3}), {2});
    all_reduce(group, x)->wait();
    EXPECT_TRUE(at::equal(x.to_dense(), at::tensor({6.0F, 0.0F})));
  });
}

TEST(SparseAllReduce, DifferencesAreNamedOnAllRanks) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x =
        at::sparse_coo_tensor({4 + group.rank(), 2}, at::kFloat);
    const auto message =
        message_of<MismatchError>([&] { all_reduce(group, x)->wait(); });
    EXPECT_THAT(message, HasSubstr("rank 0 has Float [4, 2]"));
    EXPECT_THAT(message, HasSubstr("rank 1 has Float [5, 2]"));
  });
}

TEST(SparseAllReduce, SparseOnOneRankAndDenseOnTheOtherIsAMismatch) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x =
        group.rank() == 0 ? at::eye(3) : at::eye(3).to_sparse();
    message_of<MismatchError>([&] { all_reduce(group, x)->wait(); });
  });
}

TEST(SparseAllReduce, SmallIntegersAreAveragedWithoutOverflow) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x = at::full({2, 2}, 100, at::kChar).to_sparse();
    all_reduce(group, x, ReduceOp::kAverage)->wait();
    EXPECT_EQ(x.scalar_type(), at::kChar);
    EXPECT_TRUE(at::equal(x.to_dense(), at::full({2, 2}, 100, at::kChar)));
    const at::Tensor b = at::ones({2}, at::kBool).to_sparse();
    EXPECT_THAT(message_of<UsageError>(
                    [&] { all_reduce(group, b, ReduceOp::kAverage); }),
                HasSubstr("'average' is not defined for bool"));
  });
}

TEST(SparseAllReduce, OtherOperationsAreRefused) {
  on_ranks(2, [](ProcessGroup& group) {
    const at::Tensor x = at::eye(3).to_sparse();
    EXPECT_THAT(
        message_of<UsageError>([&] { all_reduce(group, x, ReduceOp::kMax); }),
        HasSubstr("'max' is not defined"));
    EXPECT_EQ(group.sequence_number(), 0);
  });
}

}  // namespace
}  // namespace lockstep

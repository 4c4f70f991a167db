// SPDX-License-Identifier: Apache-2.0
#include "comm/op_maker.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using Counts = std::vector<size_t>;

class OpMakerTest : public ::testing::Test {
 protected:
  // `count` elements from `first` on.
  Buffer buffer(size_t count, size_t first = 0) {
    return buffer_of(memory_).slice(first, count);
  }
  Buffer other(size_t count) { return buffer_of(other_).slice(0, count); }

  std::string refused(const std::function<void()>& make) {
    return message_of<UsageError>(make);
  }

  std::vector<float> memory_ = std::vector<float>(64);
  std::vector<float> other_ = std::vector<float>(64);
  const OpMaker maker_{1, 3};  // rank 1 of 3
};

TEST_F(OpMakerTest, AllReduceTakesOneBufferOrTwoOfOneSize) {
  const auto op = maker_.all_reduce(buffer(6), other(6), ReduceOp::kMax);
  EXPECT_EQ(op.kind, OpKind::kAllReduce);
  EXPECT_EQ(op.signature.kind, OpKind::kAllReduce);
  EXPECT_EQ(op.signature.dims[0], 6);
  EXPECT_EQ(op.signature.reduce, ReduceOp::kMax);
  EXPECT_EQ(op.out.data, other_.data());
  maker_.all_reduce(buffer(6), buffer(6), ReduceOp::kSum);
  EXPECT_THAT(
      refused([&] { maker_.all_reduce(buffer(6), other(5), ReduceOp::kSum); }),
      HasSubstr("in has 6 elements and out has 5"));
  EXPECT_THAT(refused([&] {
                maker_.all_reduce(buffer(6), buffer(6, 3), ReduceOp::kSum);
              }),
              HasSubstr("overlap"));
}

TEST_F(OpMakerTest, BuffersNeedMemoryUnlessTheyAreEmpty) {
  const Buffer none{nullptr, 0, DType::kFloat32};
  maker_.all_reduce(none, none, ReduceOp::kSum);
  const Buffer bad{nullptr, 1, DType::kFloat32};
  EXPECT_THAT(refused([&] { maker_.broadcast(bad, 0); }),
              HasSubstr("data has 1 elements and no memory"));
}

TEST_F(OpMakerTest, TypesOfInAndOutAreOne) {
  std::vector<int32_t> ints(6);
  EXPECT_THAT(refused([&] {
                maker_.all_reduce(buffer(6), buffer_of(ints), ReduceOp::kSum);
              }),
              HasSubstr("in is float32 and out is int32"));
}

TEST_F(OpMakerTest, OperationsMustBeDefinedForTheType) {
  std::vector<uint8_t> bytes(4);
  EXPECT_THAT(refused([&] {
                maker_.reduce_scatter(buffer(3), other(1), ReduceOp::kBand, {});
              }),
              HasSubstr("'band' is not defined for float32"));
  refused([&] {
    maker_.all_reduce(buffer_of(bytes), buffer_of(bytes),
                      ReduceOp::premul_sum(2.0));
  });
}

TEST_F(OpMakerTest, RootsAreRanks) {
  EXPECT_EQ(maker_.broadcast(buffer(2), 2).signature.root, 2);
  for (const int root : {-1, 3}) {
    EXPECT_THAT(refused([&] { maker_.broadcast(buffer(2), root); }),
                HasSubstr("ranks of this group go from 0 to 2"));
    refused([&] { maker_.reduce(buffer(2), other(2), {}, root); });
    refused([&] { maker_.gather(buffer(2), other(6), root, {}); });
    refused([&] { maker_.scatter(buffer(6), other(2), root, {}); });
  }
}

TEST_F(OpMakerTest, OutCountsAtTheRootOnly) {
  const Buffer wrong{nullptr, 99, DType::kInt8};
  EXPECT_EQ(maker_.reduce(buffer(2), wrong, {}, 0).out.dtype, DType::kFloat32);
  maker_.gather(buffer(2), wrong, 0, {});
  maker_.scatter(wrong, buffer(2), 0, {});
  refused([&] { maker_.reduce(buffer(2), wrong, {}, 1); });
  refused([&] { maker_.gather(buffer(2), wrong, 1, {}); });
  refused([&] { maker_.scatter(wrong, buffer(2), 1, {}); });
}

TEST_F(OpMakerTest, PartsAddUpToTheWhole) {
  EXPECT_EQ(maker_.all_gather(buffer(2), other(6), {}).signature.dims[0], 2);
  EXPECT_THAT(refused([&] { maker_.all_gather(buffer(2), other(5), {}); }),
              HasSubstr("out has 5 elements; 3 ranks' parts are 6"));
  const auto op = maker_.all_gather(buffer(4), other(9), {5, 4, 0});
  EXPECT_THAT(op.out_counts, ElementsAre(5, 4, 0));
  EXPECT_NE(op.signature.counts_hash, 0U);
  EXPECT_EQ(op.signature.dims[0], 9);
  EXPECT_THAT(refused([&] {
                maker_.all_gather(buffer(3), other(9), {5, 4, 0});
              }),
              HasSubstr("in has 3 elements, but counts[1] says 4"));
  EXPECT_THAT(refused([&] {
                maker_.all_gather(buffer(4), other(9), {5, 4});
              }),
              HasSubstr("counts has 2 entries for 3 ranks"));
  EXPECT_THAT(
      maker_.reduce_scatter(buffer(9), other(4), {}, {5, 4, 0}).in_counts,
      ElementsAre(5, 4, 0));
}

TEST_F(OpMakerTest, ListsOfCountsHashByWhatTheySay) {
  const auto hash = [&](const Counts& counts) {
    return maker_.all_gather(buffer(4), other(9), counts).signature.counts_hash;
  };
  EXPECT_EQ(hash({5, 4, 0}), hash({5, 4, 0}));
  EXPECT_NE(hash({5, 4, 0}), hash({0, 4, 5}));
  EXPECT_NE(hash({5, 4, 0}), hash({3, 4, 2}));
}

TEST_F(OpMakerTest, InPlaceMeansOnesOwnPart) {
  maker_.all_gather(buffer(2, 2), buffer(6), {});
  maker_.reduce_scatter(buffer(6), buffer(2, 2), {}, {});
  EXPECT_THAT(refused([&] { maker_.all_gather(buffer(2), buffer(6), {}); }),
              HasSubstr("without being this rank's part"));
  refused([&] { maker_.reduce_scatter(buffer(6), buffer(2, 3), {}, {}); });
}

TEST_F(OpMakerTest, AllToAllSplitsEvenlyOrAsGiven) {
  maker_.all_to_all(buffer(6), other(6), {}, {});
  EXPECT_THAT(refused([&] { maker_.all_to_all(buffer(5), other(5), {}, {}); }),
              HasSubstr("cannot be split evenly"));
  refused([&] { maker_.all_to_all(buffer(6), other(3), {}, {}); });
  EXPECT_THAT(refused([&] { maker_.all_to_all(buffer(6), buffer(6), {}, {}); }),
              HasSubstr("needs memory of its own"));
  const auto op = maker_.all_to_all(buffer(6), other(2), {1, 2, 3}, {2, 0, 0});
  EXPECT_EQ(op.signature.counts_hash, 1U);
  EXPECT_EQ(op.signature.dim_count, 0);  // each rank has totals of its own
}

TEST_F(OpMakerTest, AShapeReplacesTheCountWhenItFits) {
  auto op = maker_.all_reduce(buffer(6), buffer(6), {});
  maker_.set_shape(op, {});
  EXPECT_EQ(op.signature.dim_count, 1);
  maker_.set_shape(op, {2, 3});
  EXPECT_EQ(op.signature.dim_count, 2);
  auto again = maker_.all_reduce(buffer(6), buffer(6), {});
  EXPECT_THAT(refused([&] {
                maker_.set_shape(again, {2, 2});
              }),
              HasSubstr("the shape [2, 2] has 4 elements, the data has 6"));
  // Where it is a list that ranks compare, shapes are each rank's own.
  auto parts = maker_.all_gather(buffer(4), other(9), {5, 4, 0});
  maker_.set_shape(parts, {2, 2});
  EXPECT_EQ(parts.signature.dim_count, 1);
  auto barrier = maker_.barrier();
  maker_.set_shape(barrier, {7});
  EXPECT_EQ(barrier.signature.dim_count, 0);
}

TEST_F(OpMakerTest, AllocateAgreesOnBytes) {
  const auto op = maker_.allocate(4096);
  EXPECT_EQ(op.kind, OpKind::kAllocate);
  EXPECT_EQ(op.signature.dims[0], 4096);
}

}  // namespace
}  // namespace lockstep::detail

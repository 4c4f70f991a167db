// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/collective_op.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

Signature signature_of(OpKind kind, std::vector<int64_t> dims) {
  Signature signature;
  signature.kind = kind;
  signature.sequence = 4;
  signature.set_dims(dims.data(), dims.size());
  return signature;
}

TEST(Signature, SaysWhatAPersonWouldSay) {
  EXPECT_EQ(describe(signature_of(OpKind::kAllReduce, {2, 3})),
            "all_reduce #4 (sum) of float32 [2, 3]");
  auto broadcast = signature_of(OpKind::kBroadcast, {7});
  broadcast.root = 1;
  broadcast.dtype = DType::kBFloat16;
  EXPECT_EQ(describe(broadcast), "broadcast #4 of bfloat16 [7] with root 1");
  EXPECT_EQ(describe(signature_of(OpKind::kBarrier, {})), "barrier #4");
  EXPECT_EQ(describe(signature_of(OpKind::kAllocate, {64})),
            "allocate #4 of 64 bytes");
  auto parts = signature_of(OpKind::kAllGather, {9});
  parts.counts_hash = 0xabc;
  EXPECT_THAT(describe(parts), HasSubstr("in given parts (list 00000abc)"));
}

TEST(Signature, DiffersWhenAnythingDoes) {
  const auto usual = signature_of(OpKind::kReduce, {2, 3});
  EXPECT_EQ(usual, signature_of(OpKind::kReduce, {2, 3}));
  EXPECT_NE(usual, signature_of(OpKind::kAllReduce, {2, 3}));
  EXPECT_NE(usual, signature_of(OpKind::kReduce, {3, 2}));
  EXPECT_NE(usual, signature_of(OpKind::kReduce, {2, 3, 1}));
  const auto differs = [&](const auto& change) {
    auto other = usual;
    change(other);
    EXPECT_NE(usual, other);
  };
  differs([](Signature& s) { s.sequence = 5; });
  differs([](Signature& s) { s.root = 1; });
  differs([](Signature& s) { s.dtype = DType::kInt32; });
  differs([](Signature& s) { s.reduce = ReduceOp::kMax; });
  differs([](Signature& s) { s.counts_hash = 1; });
}

TEST(Signature, MultipliesDimensionsThatHaveNoPlace) {
  const auto many = signature_of(OpKind::kAllReduce, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(many.dim_count, Signature::kMostDims);
  EXPECT_THAT(many.dims, ElementsAre(1, 2, 3, 4, 5, 6 * 7 * 8));
  auto fewer = many;
  const int64_t one = 9;
  fewer.set_dims(&one, 1);
  EXPECT_THAT(fewer.dims, ElementsAre(9, 0, 0, 0, 0, 0));
}

TEST(Mismatch, NamesEveryRankAndItsCall) {
  const auto a = signature_of(OpKind::kAllReduce, {1});
  const auto b = signature_of(OpKind::kBarrier, {});
  EXPECT_THAT(message_of<MismatchError>([&] {
                throw_mismatch({a, b, a});
              }),
              AllOf(HasSubstr("ranks 0, 2 called all_reduce #4"),
                    HasSubstr("rank 1 called barrier #4"),
                    HasSubstr("in the same order")));
}

TEST(Parts, AreEqualOrAsGiven) {
  EXPECT_EQ(part_of({}, 12, 2, 4).offset, 6U);
  EXPECT_EQ(part_of({}, 12, 2, 4).count, 3U);
  EXPECT_EQ(part_of({5, 0, 7}, 12, 2, 3).offset, 5U);
  EXPECT_EQ(part_of({5, 0, 7}, 12, 2, 3).count, 7U);
  EXPECT_EQ(part_of({5, 0, 7}, 12, 1, 3).count, 0U);
}

TEST(Slices, CoverEverythingOnceAndBeginOnCacheLines) {
  for (const DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat64}) {
    for (const size_t total : {0, 1, 63, 64, 65, 1000, 4097}) {
      for (int size = 1; size <= 9; ++size) {
        size_t end = 0;
        for (int rank = 0; rank < size; ++rank) {
          const Part slice = slice_of(total, dtype, rank, size);
          EXPECT_EQ(slice.offset, end);
          if (slice.count > 0) {
            EXPECT_EQ(slice.offset * size_of(dtype) % 64, 0U);
          }
          end += slice.count;
        }
        EXPECT_EQ(end, total);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

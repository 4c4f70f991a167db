// SPDX-License-Identifier: Apache-2.0
// Gradients into buckets, and results out of them.
#include "ddp/reducer/bucket.h"

#include <gmock/gmock.h>

#include "ddp/reducer/sparse_bucket.h"
#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::HasSubstr;
using testing::is_all;
using testing::message_of;
using testing::on_ranks;
using testing::SharedGroup;
using testing::Tensors;

const auto is_used = [](size_t /*index*/) { return true; };
const auto is_never_used = [](size_t /*index*/) { return false; };

class DenseBucketTest : public ::testing::TestWithParam<bool> {
 protected:
  DenseBucketTest() : group_(std::move(make_local_groups(1)[0])) {}

  std::unique_ptr<Bucket> make() {
    std::vector<Member> members;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      members.push_back({i, parameters_[i], "p"});
    }
    auto bucket = make_dense_bucket(std::move(members), access_, *group_,
                                    {GetParam(), 0});
    bucket->expect_all();
    return bucket;
  }
  void set_gradients(double value) {
    for (const at::Tensor& one : parameters_) {
      one.mutable_grad() = at::full_like(one, value);
    }
  }

  const Tensors parameters_ = {testing::parameter({2, 3}),
                               testing::parameter({4})};
  const GradAccess access_;
  const SharedGroup group_;
};
INSTANTIATE_TEST_SUITE_P(Views, DenseBucketTest, ::testing::Bool());

TEST_P(DenseBucketTest, TakesGradientsInAndGivesTheResultBack) {
  const auto bucket = make();
  set_gradients(3);
  EXPECT_FALSE(bucket->arrive(0, false));
  EXPECT_TRUE(bucket->arrive(1, false));
  const GradBucket view = bucket->view(0, 1);
  EXPECT_TRUE(is_all(view.buffer(), 3));
  bucket->finish(view.buffer() * 2, is_used);
  for (const at::Tensor& one : parameters_) EXPECT_TRUE(is_all(one.grad(), 6));
  const bool is_view =
      parameters_[1].grad().data_ptr() == view.gradients()[1].data_ptr();
  EXPECT_EQ(is_view, GetParam());
}

TEST_P(DenseBucketTest, WhatNobodyUsedKeepsItsGradient) {
  const auto bucket = make();
  set_gradients(3);
  parameters_[1].mutable_grad().reset();
  bucket->arrive(0, true);
  bucket->arrive(1, true);
  const at::Tensor buffer = bucket->view(0, 1).buffer();
  bucket->finish(buffer * 2, is_never_used);
  EXPECT_TRUE(is_all(parameters_[0].grad(), 3));
  EXPECT_FALSE(parameters_[1].grad().defined());
}

TEST_P(DenseBucketTest, WhatAnotherRankUsedGetsItsResult) {
  const auto bucket = make();
  bucket->arrive(0, true);
  bucket->arrive(1, true);
  const at::Tensor buffer = bucket->view(0, 1).buffer();
  EXPECT_TRUE(is_all(buffer, 0));
  bucket->finish(buffer + 5, is_used);
  EXPECT_TRUE(is_all(parameters_[1].grad(), 5));
}

TEST_P(DenseBucketTest, RefusesAResultThatDoesNotFit) {
  const auto bucket = make();
  set_gradients(1);
  bucket->arrive(0, false);
  bucket->arrive(1, false);
  EXPECT_THAT(
      message_of<UsageError>([&] { bucket->finish(at::ones({3}), is_used); }),
      HasSubstr("3 elements"));
  EXPECT_THROW(bucket->finish({}, is_used), UsageError);
}

TEST(SparseBucket, TravelsAsItsGradientOrAsGivenRows) {
  const at::Tensor table = testing::parameter({4, 2});
  const GradAccess access;
  const at::Tensor gradient = at::sparse_coo_tensor(at::ones({1, 1}, at::kLong),
                                                    at::ones({1, 2}), {4, 2})
                                  .coalesce();
  SparseBucket bucket({0, table, "table"}, access, {});
  bucket.expect_all();
  table.mutable_grad() = gradient;
  EXPECT_TRUE(bucket.arrive(0, false));
  EXPECT_TRUE(bucket.view(0, 1).buffer().is_sparse());
  bucket.finish(gradient * 3, is_used);
  EXPECT_TRUE(is_all(table.grad().to_dense()[1], 3));
  bucket.release();

  bucket.set_rows(at::tensor({1, 3}, at::kLong));
  bucket.expect_all();
  table.mutable_grad() = gradient;
  bucket.arrive(0, false);
  const at::Tensor block = bucket.view(0, 1).buffer();
  EXPECT_EQ(block.sizes(), at::IntArrayRef({2, 2}));
  EXPECT_TRUE(is_all(block[0], 1));
  EXPECT_TRUE(is_all(block[1], 0));
  bucket.finish(block + 1, is_used);
  EXPECT_TRUE(is_all(table.grad().to_dense()[3], 1));
}

}  // namespace
}  // namespace lockstep::detail

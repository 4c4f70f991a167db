// SPDX-License-Identifier: Apache-2.0
#include "hook/orthogonalize.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hook/low_rank.h"
#include "unit/hook/told_gradients.h"

namespace lockstep::detail {
namespace {

using testing::random_of;

// How far columns are from being orthonormal.
double skew_of(const at::Tensor& columns) {
  const at::Tensor wide = columns.to(at::kDouble);
  const at::Tensor products = wide.mm(wide.t());
  return (products - at::eye(columns.size(0), at::kDouble))
      .abs()
      .max()
      .item<double>();
}

// How much of `columns` lies outside of the space of orthonormal `base`.
double outside_of(const at::Tensor& columns, const at::Tensor& base) {
  const at::Tensor x = columns.to(at::kDouble);
  const at::Tensor b = base.to(at::kDouble);
  return ((x - x.mm(b.t()).mm(b)).norm() / x.norm()).item<double>();
}

TEST(Orthogonalize, ColumnsBecomeOrthonormalAndKeepTheirSpace) {
  for (const int64_t rank : {1, 2, 3, 8, 40}) {
    const at::Tensor before = random_of({rank, 57}, 3);
    const at::Tensor columns = before.clone();
    orthogonalize(columns);
    EXPECT_LT(skew_of(columns), 1e-6) << rank;
    EXPECT_LT(outside_of(before, columns), 1e-6) << rank;
  }
}

TEST(Orthogonalize, TheSpaceIsThatOfQr) {
  const at::Tensor before = random_of({5, 30}, 9);
  const at::Tensor columns = before.clone();
  orthogonalize(columns);
  const at::Tensor q =
      std::get<0>(at::linalg_qr(before.to(at::kDouble).t(), "reduced")).t();
  EXPECT_LT(outside_of(columns, q), 1e-6);
}

// What is left of the second column are rounding errors, which have parts in
// the direction of the first.
TEST(Orthogonalize, NearlyDependentColumnsBecomeOrthonormalToo) {
  const at::Tensor columns = random_of({1, 100}, 1).repeat({3, 1});
  columns[1].mul_(3);
  columns[2].add_(random_of({100}, 2), 1e-7);
  orthogonalize(columns);
  const at::Tensor lengths = columns.norm(2, 1);
  for (int64_t k = 0; k < 3; ++k) {
    const double length = lengths[k].item<double>();
    EXPECT_TRUE(length == 0 || std::abs(length - 1) < 1e-6) << length;
    for (int64_t other = 0; other < k; ++other) {
      EXPECT_LT(std::abs(columns[k].dot(columns[other]).item<double>()), 1e-5);
    }
  }
  EXPECT_NEAR(lengths[0].item<double>(), 1, 1e-6);
}

TEST(Orthogonalize, MoreColumnsThanDirectionsLeaveZeros) {
  const at::Tensor columns = random_of({3, 1}, 4);
  orthogonalize(columns);
  EXPECT_EQ(std::abs(columns[0].item<float>()), 1);
  EXPECT_EQ(columns[1].item<float>(), 0);
  EXPECT_EQ(columns[2].item<float>(), 0);
}

TEST(Orthogonalize, AZeroColumnStaysZeroAndIsNoError) {
  const at::Tensor columns = random_of({3, 20}, 5);
  columns[1].zero_();
  orthogonalize(columns);
  EXPECT_TRUE(at::all(columns[1].eq(0)).item<bool>());
  EXPECT_NEAR(columns[2].norm().item<double>(), 1, 1e-6);
  orthogonalize(columns.zero_(), 0.1);
  EXPECT_TRUE(at::all(columns.eq(0)).item<bool>());
}

TEST(Orthogonalize, EpsilonMakesColumnsShorter) {
  const at::Tensor columns = at::full({1, 4}, 1.5F);  // of length 3
  orthogonalize(columns, 1);
  EXPECT_NEAR(columns.norm().item<double>(), 0.75, 1e-6);
}

TEST(Orthogonalize, WhatIsNotFiniteShows) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const at::Tensor columns = random_of({2, 9}, 6);
    columns[0][3] = bad;
    orthogonalize(columns);
    EXPECT_TRUE(at::all(at::isnan(columns)).item<bool>()) << bad;
  }
}

TEST(RenewDirections, ReplacesOnlyWhatIsOfNoUse) {
  const at::Tensor columns = random_of({4, 30}, 7);
  columns[1].zero_();
  columns[2][5] = NAN;
  const at::Tensor first = columns[0].clone();
  renew_directions(columns, 11);
  EXPECT_LT(skew_of(columns), 1e-6);
  EXPECT_NEAR(columns[0].dot(first / first.norm()).item<double>(), 1, 1e-6);
}

TEST(RenewDirections, DependsOnNothingButTheSeed) {
  const auto make = [](uint64_t seed) {
    const at::Tensor columns = at::zeros({2, 1000});
    renew_directions(columns, seed);
    return columns;
  };
  EXPECT_TRUE(at::equal(make(3), make(3)));
  EXPECT_LT(std::abs(make(3)[0].dot(make(4)[0]).item<double>()), 0.2);
  // About normal: a third of the numbers is beyond one deviation.
  const at::Tensor beyond = make(5)[0].abs().gt(1 / std::sqrt(1000.0));
  EXPECT_NEAR(beyond.sum().item<double>(), 317, 60);
}

TEST(Expand, IsTheProductAndLeavesTheRest) {
  for (const int64_t cols : {1, 31, 32, 33, 100}) {
    for (const int64_t rank : {1, 2, 5}) {
      const at::Tensor p = random_of({rank, 7}, 1);
      const at::Tensor q = random_of({rank, cols}, 2);
      const at::Tensor before = random_of({7, cols}, 3);
      const at::Tensor matrix = before.clone();
      const at::Tensor residual = at::full({7, cols}, NAN);
      expand(p, q, matrix, residual, 0.5);
      EXPECT_TRUE(at::allclose(matrix, p.t().mm(q), 1e-5, 1e-5));
      EXPECT_TRUE(at::allclose(residual, before - 0.5 * matrix, 1e-5, 1e-5));
      const at::Tensor again = before.clone();
      expand(p, q, again, {});
      EXPECT_TRUE(at::equal(again, matrix));
    }
  }
}

}  // namespace
}  // namespace lockstep::detail

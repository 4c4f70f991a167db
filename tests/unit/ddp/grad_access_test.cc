// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/grad_access.h"

#include <gtest/gtest.h>

#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using testing::is_all;

void set_gradient(const GradAccess& access, const at::Tensor& parameter,
                  double value) {
  access.with_grad(parameter, [&](at::Tensor& grad) {
    grad = at::full_like(parameter, value);
  });
}

TEST(GradAccess, GradientsAreInGradUntilAMapIsSet) {
  const at::Tensor weight = testing::parameter({2});
  GradAccess access;
  EXPECT_FALSE(access.has_gradient(weight));
  set_gradient(access, weight, 3);
  EXPECT_TRUE(access.has_gradient(weight));
  EXPECT_TRUE(is_all(weight.grad(), 3));

  const auto map = std::make_shared<GradientMap>();
  access.use_map(map);
  EXPECT_TRUE(access.has_map());
  EXPECT_FALSE(access.has_gradient(weight));
  set_gradient(access, weight, 5);
  EXPECT_TRUE(is_all((*map)[weight], 5));
  EXPECT_TRUE(is_all(weight.grad(), 3));  // as before

  access.use_map(nullptr);
  EXPECT_FALSE(access.has_map());
  access.with_grad(
      weight, [](const at::Tensor& grad) { EXPECT_TRUE(is_all(grad, 3)); });
}

TEST(GradAccess, AMapTellsParametersApart) {
  const testing::Tensors weights = testing::some_parameters(2);
  const auto map = std::make_shared<GradientMap>();
  GradAccess access;
  access.use_map(map);
  set_gradient(access, weights[0], 1);
  EXPECT_TRUE(access.has_gradient(weights[0]));
  EXPECT_FALSE(access.has_gradient(weights[1]));
}

}  // namespace
}  // namespace lockstep::detail

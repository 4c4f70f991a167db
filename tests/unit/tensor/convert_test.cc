// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/convert.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Bit by bit what libtorch does, whatever the types and layouts.
TEST(ConvertInto, IsACopyOfAnotherType) {
  for (const auto to_type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const auto from_type :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      for (const bool transposed : {false, true}) {
        const at::Tensor values = at::rand({5, 7}).to(from_type);
        const at::Tensor from =
            transposed ? values.t().contiguous().t() : values;
        const at::Tensor to = at::empty({5, 7}, to_type);
        convert_into(to, from);
        EXPECT_TRUE(at::equal(to, values.to(to_type)));
        convert_into(to, from, 0.25);  // exact in all types
        EXPECT_TRUE(at::equal(to, values.mul(0.25).to(to_type)));
      }
    }
  }
}

TEST(ConvertInto, TakesTensorsThatRequireGradients) {
  const at::Tensor weight = at::ones({3}).set_requires_grad(true);
  const at::Tensor copy = at::zeros({3}, at::kBFloat16);
  convert_into(copy, weight);
  EXPECT_TRUE(at::equal(copy, at::ones({3}, at::kBFloat16)));
  EXPECT_FALSE(copy.requires_grad());
}

}  // namespace
}  // namespace lockstep

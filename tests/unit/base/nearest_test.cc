// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/nearest.h"

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

TEST(Nearest, IsTheWordWithTheFewestLettersBetween) {
  const std::vector<std::string> known = {"quantize", "sign", "top_k"};
  EXPECT_EQ(nearest("quantise", known), "quantize");
  EXPECT_EQ(nearest("topk", known), "top_k");
  EXPECT_EQ(nearest("sing", known), "sign");
  EXPECT_EQ(nearest("sign", known), "sign");
}

TEST(Nearest, IsNothingWhenAllAreTooFar) {
  EXPECT_EQ(nearest("horse", {"cow", "sheep"}, 2), "");
  EXPECT_EQ(nearest("cat", {"cow", "car"}, 1), "car");
  EXPECT_EQ(nearest("cat", {"cow"}, 2), "cow");
  EXPECT_EQ(nearest("cat", {}), "");
}

}  // namespace
}  // namespace lockstep::detail

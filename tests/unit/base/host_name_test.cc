// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/host_name.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

TEST(HostName, IsWhatTheKernelSays) {
  std::ifstream file("/proc/sys/kernel/hostname");
  std::string expected;
  ASSERT_TRUE(file >> expected);
  EXPECT_EQ(host_name(), expected);
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "comm/memory_users.h"

#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

TEST(MemoryUsers, NobodyIsWaitedForWhenThereIsNone) {
  MemoryUsers users;
  EXPECT_TRUE(users.wait_none(Deadline::in(0ms)));
  { const MemoryUsers::Scope scope(users); }
  EXPECT_TRUE(users.wait_none(Deadline::in(0ms)));
}

TEST(MemoryUsers, EachIsWaitedFor) {
  MemoryUsers users;
  std::optional<MemoryUsers::Scope> first(std::in_place, users);
  std::optional<MemoryUsers::Scope> second(std::in_place, users);
  EXPECT_FALSE(users.wait_none(Deadline::in(1ms)));
  first.reset();
  EXPECT_FALSE(users.wait_none(Deadline::in(1ms)));
  second.reset();
  EXPECT_TRUE(users.wait_none(Deadline::in(1ms)));
}

TEST(MemoryUsers, TheLastOneWakesWhoWaits) {
  for (int round = 0; round < 200; ++round) {
    MemoryUsers users;
    std::optional<MemoryUsers::Scope> scope(std::in_place, users);
    std::thread user([&] { scope.reset(); });
    EXPECT_TRUE(users.wait_none(Deadline::in(30s)));
    user.join();
  }
}

}  // namespace
}  // namespace lockstep::detail

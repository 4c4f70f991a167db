// SPDX-License-Identifier: Apache-2.0
#include "comm/memory_users.h"

#include <future>
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

TEST(MemoryUsers, AThreadKnowsWhetherItIsOne) {
  MemoryUsers users;
  EXPECT_FALSE(MemoryUsers::is_this_thread_one());
  const MemoryUsers::Scope scope(users);
  EXPECT_TRUE(MemoryUsers::is_this_thread_one());
  bool other = true;
  std::thread([&] { other = MemoryUsers::is_this_thread_one(); }).join();
  EXPECT_FALSE(other);
}

TEST(MemoryUsers, TheLastOneWakesWhoWaits) {
  for (int round = 0; round < 200; ++round) {
    MemoryUsers users;
    std::promise<void> inside;
    std::thread user([&] {
      const MemoryUsers::Scope scope(users);
      inside.set_value();
    });
    inside.get_future().wait();
    EXPECT_TRUE(users.wait_none(Deadline::in(30s)));
    user.join();
  }
}

}  // namespace
}  // namespace lockstep::detail

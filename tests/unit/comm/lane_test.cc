// SPDX-License-Identifier: Apache-2.0
#include "comm/lane.h"

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/caller_state.h"
#include "support/support.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

class Call : public Lane::Task {
 public:
  explicit Call(std::function<void()> body) : body_(std::move(body)) {}
  void run() noexcept override { body_(); }

 private:
  std::function<void()> body_;
};

std::unique_ptr<Lane::Task> call(std::function<void()> body) {
  return std::make_unique<Call>(std::move(body));
}

TEST(Lane, RunsTasksInTheirOrderOnOneThread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  {
    Lane lane("test", 0);
    for (int i = 0; i < 100; ++i) {
      lane.push(call([&, i] {
        order.push_back(i);
        threads.push_back(std::this_thread::get_id());
      }));
    }
  }  // runs what was pushed
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  for (const auto id : threads) EXPECT_EQ(id, threads.front());
  EXPECT_NE(threads.front(), std::this_thread::get_id());
}

TEST(Lane, HasNoThreadUntilItNeedsOne) {
  const int before = testing::running_threads();
  Lane lane("test", 0);
  ASSERT_TRUE(lane.try_enter());
  lane.leave();
  EXPECT_EQ(testing::running_threads(), before);
}

TEST(Lane, IsTheCallersWhileItIsIdle) {
  Lane lane("test", 0);
  ASSERT_TRUE(lane.try_enter());
  EXPECT_FALSE(lane.try_enter());
  EXPECT_FALSE(lane.wait_idle(Deadline::in(5ms)));
  std::atomic<bool> ran{false};
  lane.push(call([&] { ran = true; }));
  std::this_thread::yield();
  EXPECT_FALSE(ran);  // not while we are in there
  lane.leave();
  EXPECT_TRUE(lane.wait_idle(Deadline::in(10s)));
  EXPECT_TRUE(ran);
  EXPECT_TRUE(lane.try_enter());
  lane.leave();
}

TEST(Lane, IsNotTheCallersWhileATaskRuns) {
  Lane lane("test", 0);
  std::atomic<bool> go{false};
  lane.push(call([&] {
    while (!go) std::this_thread::yield();
  }));
  EXPECT_FALSE(lane.try_enter());
  EXPECT_FALSE(lane.wait_idle(Deadline::in(5ms)));
  go = true;
  EXPECT_TRUE(lane.wait_idle(Deadline::in(10s)));
}

TEST(Lane, ForbidsWaitingOnItsThread) {
  Lane lane("test", 0);
  std::atomic<bool> forbidden{false};
  lane.push(call([&] { forbidden = NoWaitScope::is_active(); }));
  lane.wait_idle(Deadline::in(10s));
  EXPECT_TRUE(forbidden);
  EXPECT_FALSE(NoWaitScope::is_active());
}

// A task may keep something whose end pushes another.
TEST(Lane, LetsGoOfATaskBeforeTheNext) {
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = kept;
  std::atomic<bool> gone{false};
  Lane lane("test", 0);
  lane.push(call([kept] {}));
  kept.reset();
  lane.push(call([&] { gone = watch.expired(); }));
  EXPECT_TRUE(lane.wait_idle(Deadline::in(10s)));
  EXPECT_TRUE(gone);
}

TEST(Lane, TakesTasksFromAnyThread) {
  std::atomic<int> ran{0};
  {
    Lane lane("test", 0);
    testing::run_threads(4, [&](int) {
      for (int i = 0; i < 200; ++i) {
        if (lane.try_enter()) {
          ++ran;
          lane.leave();
        } else {
          lane.push(call([&] { ++ran; }));
        }
      }
    });
  }
  EXPECT_EQ(ran, 800);
}

}  // namespace
}  // namespace lockstep::detail

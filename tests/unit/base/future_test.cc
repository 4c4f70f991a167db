// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/future.h"

#include <atomic>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/caller_state.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

const auto soon = [] { return Deadline::in(10s); };

template <class T>
void fail(Promise<T>& promise, const char* text) {
  promise.set_error(std::make_exception_ptr(PeerError(text)));
}

TEST(Future, GivesTheValueAcrossThreads) {
  Promise<std::string> promise;
  auto future = promise.future();
  EXPECT_FALSE(future.is_ready());
  std::thread setter([&] { promise.set_value("hello"); });
  EXPECT_EQ(future.get(soon()), "hello");
  EXPECT_TRUE(future.has_value());
  setter.join();
}

TEST(Future, RethrowsTheError) {
  Promise<int> promise;
  fail(promise, "gone");
  EXPECT_THROW(promise.future().get(soon()), PeerError);
  EXPECT_TRUE(promise.future().is_ready());
  EXPECT_FALSE(promise.future().has_value());
}

TEST(Future, TimesOutAndCanBeWaitedForAgain) {
  Promise<int> promise;
  auto future = promise.future();
  EXPECT_THROW(future.get(Deadline::in(5ms)), TimeoutError);
  EXPECT_FALSE(future.wait(Deadline::in(0ms)));
  promise.set_value(3);
  EXPECT_EQ(future.get(soon()), 3);
}

TEST(Future, ContinuationsRunInOrderAndAfterCompletionAtOnce) {
  Promise<int> promise;
  auto future = promise.future();
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) {
    future.then([&seen, i](const int& v) { seen.push_back(v + i); });
  }
  EXPECT_TRUE(seen.empty());
  promise.set_value(10);
  EXPECT_THAT(seen, ElementsAre(10, 11, 12));
  future.then([&](const int& v) { seen.push_back(v); });
  EXPECT_THAT(seen, ElementsAre(10, 11, 12, 10));
}

TEST(Future, ContinuationsChainTheirResults) {
  Promise<int> promise;
  auto text = promise.future()
                  .then([](const int& n) { return n * 2; })
                  .then([](const int& n) { return std::to_string(n); });
  promise.set_value(21);
  EXPECT_EQ(text.get(soon()), "42");
}

TEST(Future, AnErrorSkipsContinuationsAndArrivesAtTheEnd) {
  Promise<int> promise;
  bool ran = false;
  auto end = promise.future().then([&](const int&) { ran = true; }).then([&] {
    ran = true;
  });
  fail(promise, "first");
  EXPECT_THROW(end.get(soon()), PeerError);
  EXPECT_FALSE(ran);
}

TEST(Future, AThrowingContinuationFailsItsFuture) {
  Promise<void> promise;
  auto next = promise.future().then([]() -> int { throw UsageError("no"); });
  promise.set_value();
  EXPECT_THROW(next.get(soon()), UsageError);
  EXPECT_TRUE(promise.future().has_value());
}

TEST(Future, AContinuationThatReturnsAFutureIsFollowed) {
  Promise<int> outer;
  Promise<std::string> inner;
  Future<std::string> flat =
      outer.future().then([&](const int&) { return inner.future(); });
  outer.set_value(1);
  EXPECT_FALSE(flat.is_ready());
  inner.set_value("inner");
  EXPECT_EQ(flat.get(soon()), "inner");
}

TEST(Future, AFollowedFuturePassesItsError) {
  Promise<void> outer;
  Promise<void> inner;
  Future<void> flat = outer.future().then([&] { return inner.future(); });
  outer.set_value();
  fail(inner, "inner");
  EXPECT_THROW(flat.get(soon()), PeerError);
}

TEST(Future, OnReadySeesValueAndError) {
  Promise<int> good;
  Promise<int> bad;
  std::vector<bool> had_value;
  for (const auto& future : {good.future(), bad.future()}) {
    future.on_ready([&](const Future<int>& self) {
      had_value.push_back(self.has_value());
    });
  }
  good.set_value(1);
  fail(bad, "x");
  EXPECT_THAT(had_value, ElementsAre(true, false));
}

TEST(Future, ContinuationsRunBeforeWaitersWake) {
  Promise<int> promise;
  auto future = promise.future();
  std::atomic<bool> continued{false};
  future.then([&](const int&) {
    std::this_thread::sleep_for(20ms);
    continued = true;
  });
  std::thread waiter([&] {
    future.get(soon());
    EXPECT_TRUE(continued);
  });
  promise.set_value(1);
  waiter.join();
}

TEST(Future, AContinuationMayReadItsOwnFuture) {
  Promise<int> promise;
  auto future = promise.future();
  int seen = 0;
  future.on_ready([&](const Future<int>& self) { seen = self.get(soon()); });
  promise.set_value(5);
  EXPECT_EQ(seen, 5);
}

TEST(Future, AThrowInOnReadyIsLoggedAndTheRestRun) {
  testing::LogCapture log;
  Promise<int> promise;
  bool ran = false;
  promise.future().on_ready([](const auto&) { throw UsageError("oops"); });
  promise.future().on_ready([&](const auto&) { ran = true; });
  promise.set_value(1);
  EXPECT_TRUE(ran);
  EXPECT_EQ(log.count("oops"), 1);
}

TEST(Promise, IsCompletedOnce) {
  Promise<int> promise;
  promise.set_value(1);
  EXPECT_THROW(promise.set_value(2), UsageError);
  EXPECT_THROW(promise.set_error(nullptr), UsageError);
  EXPECT_EQ(promise.future().get(soon()), 1);
}

TEST(Promise, DroppedFailsItsFuture) {
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.future();
  }
  EXPECT_THROW(future.get(soon()), AbortedError);
}

TEST(Future, MadeFromAFunction) {
  EXPECT_EQ(make_future([] { return 4; }).get(soon()), 4);
  EXPECT_THROW(make_future([] { throw UsageError("x"); }).get(soon()),
               UsageError);
  const auto error = std::make_exception_ptr(PeerError("x"));
  EXPECT_THROW(make_failed_future<int>(error).get(soon()), PeerError);
}

TEST(WhenAll, WaitsForEveryOneAndKeepsTheFirstError) {
  std::vector<Promise<int>> promises(3);
  std::vector<Future<int>> futures;
  for (const auto& promise : promises) futures.push_back(promise.future());
  auto all = when_all(futures);
  fail(promises[2], "third");
  fail(promises[1], "second");
  EXPECT_FALSE(all.is_ready());
  promises[0].set_value(1);
  EXPECT_EQ(describe(all.error()), "second");
  EXPECT_TRUE(when_all(std::vector<Future<int>>{}).has_value());
}

TEST(Future, ManyThreadsAddContinuationsWhileItCompletes) {
  for (int round = 0; round < 50; ++round) {
    Promise<int> promise;
    auto future = promise.future();
    std::atomic<int> ran{0};
    testing::run_threads(4, [&](int i) {
      if (i == 0) return promise.set_value(1);
      for (int n = 0; n < 20; ++n) future.then([&](const int&) { ++ran; });
    });
    EXPECT_EQ(ran, 60);
  }
}

struct Sulky {
  explicit Sulky(int) { throw std::runtime_error("no value today"); }
};

TEST(Promise, AValueThatCannotBeMadeIsAnError) {
  Promise<Sulky> promise;
  const auto future = promise.future();
  EXPECT_THROW(promise.set_value(1), std::runtime_error);
  ASSERT_TRUE(future.is_ready());
  EXPECT_EQ(describe(future.error()), "no value today");
}

TEST(Future, AThreadThatMayNotWaitTakesAResultWhoseContinuationsStillRun) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  future.on_ready([](const Future<int>& ready) {
    std::thread([&] {
      const NoWaitScope no_wait;
      EXPECT_EQ(ready.get(Deadline::in(std::chrono::seconds(0))), 7);
    }).join();
  });
  promise.set_value(7);
}

TEST(Future, DoneIsTheSameWithoutTheValue) {
  Promise<int> promise;
  const Future<void> done = promise.future().done();
  EXPECT_FALSE(done.is_ready());
  promise.set_value(7);
  EXPECT_TRUE(done.has_value());
  const auto failed = make_failed_future<int>(
      std::make_exception_ptr(std::runtime_error("no luck")));
  EXPECT_THROW(failed.done().get(Deadline::in({})), std::runtime_error);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What every store promises about waiting, and about threads that wait.
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "contract/store_contract.h"
#include "lockstep/comm.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::run_threads;

TEST_P(StoreContract, GetWaitsForTheKey) {
  std::thread setter([&] { other_->set("late", "value"); });
  EXPECT_EQ(get("late"), "value");
  setter.join();
}

TEST_P(StoreContract, GetTimesOutNamingKeyAndTime) {
  const auto start = Deadline::Clock::now();
  const auto text = message_of<TimeoutError>(
      [&] { store_->get("nobody sets this", Deadline::in(150ms)); });
  EXPECT_GE(Deadline::Clock::now() - start, 150ms);
  EXPECT_LT(Deadline::Clock::now() - start, 1500ms);
  EXPECT_THAT(text, HasSubstr("nobody sets this"));
  EXPECT_THAT(text, HasSubstr("150 ms"));
  EXPECT_THAT(text, HasSubstr("store get"));
  store_->set("nobody sets this", "after all");  // and the handle is usable
  EXPECT_EQ(get("nobody sets this"), "after all");
}

// Whichever call makes a key, those who wait for it wake.
TEST_P(StoreContract, EveryWayToMakeAKeyWakesWaiters) {
  const std::vector<std::function<void(const std::string&)>> ways = {
      [&](auto& key) { other_->set(key, "v"); },
      [&](auto& key) { other_->add(key, 1); },
      [&](auto& key) { other_->append(key, "v"); },
      [&](auto& key) {
        other_->multi_set({"x", key}, {{}, {}});
      },
      [&](auto& key) { other_->compare_set(key, std::nullopt, "v"); },
  };
  for (size_t i = 0; i < ways.size(); ++i) {
    const std::string key = "key" + std::to_string(i);
    std::atomic<bool> waiting{false};
    std::thread waiter([&] {
      waiting = true;
      store_->wait({key, "k2"}, Deadline::in(20s));
    });
    while (!waiting) std::this_thread::yield();
    if (i == 0) other_->set("k2", "");
    ways[i](key);
    waiter.join();
  }
}

TEST_P(StoreContract, WaitListsOnlyTheMissingKeys) {
  store_->set("here", "");
  const auto start = Deadline::Clock::now();
  const auto text = message_of<TimeoutError>([&] {
    store_->wait({"here", "gone1", "gone2"}, Deadline::in(30ms));
  });
  EXPECT_GE(Deadline::Clock::now() - start, 30ms);
  EXPECT_LT(Deadline::Clock::now() - start, 900ms);
  EXPECT_THAT(text, HasSubstr("gone1"));
  EXPECT_THAT(text, HasSubstr("gone2"));
  EXPECT_THAT(text, Not(HasSubstr("here'")));
}

TEST_P(StoreContract, WaitOfNothingReturns) {
  store_->wait({}, Deadline::in(0ms));
  EXPECT_TRUE(store_->multi_get({}, Deadline::in(0ms)).empty());
}

TEST_P(StoreContract, AWaitThatIsMetInTimeWinsOverALateDeadline) {
  store_->set("k", "v");
  // The deadline has passed already, but the answer is there.
  if (dynamic_cast<HashStore*>(store_.get()) != nullptr) {
    EXPECT_EQ(to_string(store_->get("k", Deadline::in(0ms))), "v");
  }
  EXPECT_EQ(to_string(store_->get("k", Deadline::in(1s))), "v");
}

// Wake-ups for other keys must not start the time anew.
TEST_P(StoreContract, DeadlinesAreAbsolute) {
  std::atomic<bool> stop{false};
  std::thread noise([&] {
    for (int i = 0; !stop; ++i) {
      other_->set("noise", std::to_string(i));
      std::this_thread::sleep_for(2ms);
    }
  });
  const auto start = Deadline::Clock::now();
  EXPECT_THROW(store_->wait({"never"}, Deadline::in(200ms)), TimeoutError);
  EXPECT_LT(Deadline::Clock::now() - start, 2s);
  stop = true;
  noise.join();
}

TEST_P(StoreContract, MultiGetWaitsForAll) {
  std::thread setter([&] {
    other_->set("b", "2");
    other_->set("a", "1");
  });
  EXPECT_THAT(store_->multi_get({"a", "b"}, Deadline::in(10s)),
              ElementsAre(to_vector("1"), to_vector("2")));
  setter.join();
}

TEST_P(StoreContract, QueuesAreFirstInFirstOut) {
  for (int i = 0; i < 5; ++i) store_->push("q", std::to_string(i));
  EXPECT_EQ(other_->length("q"), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(to_string(other_->pop("q")), std::to_string(i));
  }
  EXPECT_EQ(store_->length("q"), 0);
}

TEST_P(StoreContract, QueuesAndKeysDoNotMeet) {
  store_->push("x", "in queue");
  EXPECT_FALSE(store_->check({"x"}));
  store_->set("x", "in key");
  EXPECT_EQ(to_string(other_->pop("x")), "in queue");
  EXPECT_EQ(get("x"), "in key");
}

TEST_P(StoreContract, PopTimesOutNamingTheQueueAndTakesNothing) {
  const auto text =
      message_of<TimeoutError>([&] { store_->pop("dry", Deadline::in(50ms)); });
  EXPECT_THAT(text, HasSubstr("dry"));
  other_->push("dry", "v");
  EXPECT_EQ(other_->length("dry"), 1);
  EXPECT_EQ(to_string(store_->pop("dry", Deadline::in(10s))), "v");
}

TEST_P(StoreContract, EachPushedValueGoesToOnePopper) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::mutex mutex;
  std::multiset<std::string> popped;
  run_threads(2 * kThreads, [&](int i) {
    auto handle = world_->open();
    for (int n = 0; n < kEach; ++n) {
      if (i < kThreads) {
        handle->push("q", std::to_string(i * kEach + n));
      } else {
        const auto value = to_string(handle->pop("q", Deadline::in(30s)));
        std::lock_guard<std::mutex> lock(mutex);
        popped.insert(value);
      }
    }
  });
  EXPECT_EQ(popped.size(), static_cast<size_t>(kThreads * kEach));
  for (int i = 0; i < kThreads * kEach; ++i) {
    EXPECT_EQ(popped.count(std::to_string(i)), 1U) << i;
  }
}

// Pops whose deadline is about to pass while values come: none gets lost.
TEST_P(StoreContract, APopThatTimesOutLosesNoValue) {
  constexpr int kValues = 40;
  std::atomic<int> taken{0};
  run_threads(3, [&](int i) {
    auto handle = world_->open();
    if (i == 0) {
      for (int n = 0; n < kValues; ++n) handle->push("q", "v");
      return;
    }
    for (int n = 0; n < 100; ++n) {
      try {
        handle->pop("q",
                    Deadline::in(std::chrono::microseconds(n * 37 % 2000)));
        ++taken;
      } catch (const TimeoutError&) {
      }
    }
  });
  EXPECT_EQ(taken + store_->length("q"), kValues);
}

TEST_P(StoreContract, TheDefaultTimeoutIsFiveMinutesAndCanBeSet) {
  EXPECT_EQ(store_->timeout(), 300s);
  store_->set_timeout(40ms);
  const auto start = Deadline::Clock::now();
  EXPECT_THROW(store_->get("never"), TimeoutError);
  EXPECT_THROW(store_->wait({"never"}), TimeoutError);
  EXPECT_THROW(store_->pop("never"), TimeoutError);
  EXPECT_LT(Deadline::Clock::now() - start, 3s);
  if (dynamic_cast<HashStore*>(store_.get()) == nullptr) {
    EXPECT_EQ(other_->timeout(), 300s);
  }
}

TEST_P(StoreContract, AWaitingThreadBlocksNoOtherCallOnTheHandle) {
  std::atomic<int> waiting{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      ++waiting;
      store_->get("late" + std::to_string(i), Deadline::in(30s));
    });
  }
  while (waiting < 3) std::this_thread::yield();
  const auto start = Deadline::Clock::now();
  for (int i = 0; i < 50; ++i) {
    store_->set("k", std::to_string(i));
    EXPECT_EQ(get("k"), std::to_string(i));
  }
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
  for (int i = 0; i < 3; ++i) store_->set("late" + std::to_string(i), "");
  for (auto& waiter : waiters) waiter.join();
}

TEST_P(StoreContract, ManyThreadsShareOneHandle) {
  run_threads(8, [&](int i) {
    const std::string mine = std::to_string(i);
    const std::string next = std::to_string((i + 1) % 8);
    for (int round = 0; round < 20; ++round) {
      const std::string tail = "/" + std::to_string(round);
      store_->set(mine + tail, mine);
      EXPECT_EQ(to_string(store_->get(next + tail, Deadline::in(30s))), next);
    }
  });
}

extern "C" void ignore_signal(int) {}

TEST_P(StoreContract, ASignalBreaksNothing) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = ignore_signal;  // and no SA_RESTART: calls see EINTR
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    EXPECT_THROW(store_->get("never", Deadline::in(100ms)), TimeoutError);
    for (int i = 0; i < 20; ++i) {
      store_->set("k", "v");
      EXPECT_EQ(get("k"), "v");
    }
    EXPECT_EQ(get("late"), "v");
    done = true;
  });
  for (int i = 0; i < 200 && !done; ++i) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(1ms);
  }
  other_->set("late", "v");
  waiter.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What every store promises, for each of them and for a PrefixStore over each.
#include <pthread.h>
#include <csignal>

#include <atomic>
#include <functional>
#include <limits>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_threads;
using testing::TempDir;

// Everything one kind of store needs to live, and any number of handles.
struct World {
  virtual ~World() = default;
  virtual std::shared_ptr<Store> open() = 0;
};

struct HashWorld : World {
  std::shared_ptr<Store> open() override { return store; }
  std::shared_ptr<Store> store = std::make_shared<HashStore>();
};

struct FileWorld : World {
  std::shared_ptr<Store> open() override {
    return std::make_shared<FileStore>(directory.file("store"));
  }
  TempDir directory;
};

struct TcpWorld : World {
  std::shared_ptr<Store> open() override {
    return std::make_shared<TcpStore>("127.0.0.1", server.port(), "secret");
  }
  TcpStoreServer server{"127.0.0.1", 0, "secret"};
};

template <class Inner>
struct PrefixWorld : World {
  std::shared_ptr<Store> open() override {
    return std::make_shared<PrefixStore>("p", inner.open());
  }
  Inner inner;
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<World>()> make;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

template <class W>
Kind kind_of(const char* name) {
  return {name, [] { return std::make_unique<W>(); }};
}

class StoreContract : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<World> world_ = GetParam().make();
  std::shared_ptr<Store> store_ = world_->open();
  // A second rank's handle.
  std::shared_ptr<Store> other_ = world_->open();

  std::string get(const std::string& key) {
    return to_string(store_->get(key, Deadline::in(10s)));
  }
};

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    ::testing::Values(kind_of<HashWorld>("Hash"), kind_of<FileWorld>("File"),
                      kind_of<TcpWorld>("Tcp"),
                      kind_of<PrefixWorld<HashWorld>>("PrefixHash"),
                      kind_of<PrefixWorld<FileWorld>>("PrefixFile"),
                      kind_of<PrefixWorld<TcpWorld>>("PrefixTcp"),
                      kind_of<PrefixWorld<PrefixWorld<TcpWorld>>>("Nested")),
    [](const auto& kind) { return std::string(kind.param.name); });

template <class ErrorType, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST_P(StoreContract, SetOverwritesAndOthersSeeIt) {
  store_->set("k", "one");
  EXPECT_EQ(to_string(other_->get("k")), "one");
  other_->set("k", "two");
  EXPECT_EQ(get("k"), "two");
}

TEST_P(StoreContract, KeysAndValuesAreAnyBytes) {
  const std::string odd("\0\xff\n/'", 5);
  store_->set(odd, odd);
  store_->set("empty", "");
  store_->set("", "empty key");
  EXPECT_EQ(to_string(other_->get(odd)), odd);
  EXPECT_EQ(to_string(other_->get("empty")), "");
  EXPECT_EQ(to_string(other_->get("")), "empty key");
  EXPECT_TRUE(other_->check({"empty", odd, ""}));
}

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

TEST_P(StoreContract, AddCountsInDecimalText) {
  EXPECT_EQ(store_->add("n", 6), 6);
  EXPECT_EQ(get("n"), "6");
  EXPECT_EQ(other_->add("n", -10), -4);
  EXPECT_EQ(get("n"), "-4");
  store_->set("m", "5");
  EXPECT_EQ(other_->add("m", 1), 6);
  EXPECT_EQ(store_->add("m", 0), 6);
}

TEST_P(StoreContract, AddOfZeroMakesTheCounter) {
  EXPECT_EQ(store_->add("n", 0), 0);
  EXPECT_EQ(to_string(other_->get("n", Deadline::in(10s))), "0");
}

TEST_P(StoreContract, AddRefusesWhatIsNoNumberAndLeavesIt) {
  for (const std::string value :
       {"5x", "", " 5", "five", "99999999999999999999"}) {
    store_->set("k", value);
    EXPECT_THAT(message_of<UsageError>([&] { other_->add("k", 1); }),
                HasSubstr("k' holds"));
    EXPECT_EQ(get("k"), value);
  }
}

TEST_P(StoreContract, AddRefusesOverflowAndLeavesTheCounter) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(store_->add("n", kMost), kMost);
  EXPECT_THAT(message_of<UsageError>([&] { other_->add("n", 1); }),
              HasSubstr("overflow"));
  EXPECT_EQ(store_->add("n", -1), kMost - 1);
  constexpr auto kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(store_->add("low", kLeast), kLeast);
  EXPECT_THROW(store_->add("low", -1), UsageError);
}

TEST_P(StoreContract, AddIsAtomicOverHandlesAndThreads) {
  run_threads(8, [&](int i) {
    auto handle = i % 2 == 0 ? store_ : world_->open();
    for (int n = 0; n < 100; ++n) handle->add("n", 1);
  });
  EXPECT_EQ(store_->add("n", 0), 800);
}

TEST_P(StoreContract, CompareSetStoresOnlyOnAMatch) {
  auto result = store_->compare_set("k", ConstBytes("x"), "new");
  EXPECT_FALSE(result.stored);
  EXPECT_FALSE(result.value.has_value());
  EXPECT_FALSE(store_->check({"k"}));

  result = store_->compare_set("k", std::nullopt, "first");
  EXPECT_TRUE(result.stored);
  EXPECT_EQ(to_string(*result.value), "first");

  result = other_->compare_set("k", std::nullopt, "second");
  EXPECT_FALSE(result.stored);
  EXPECT_EQ(to_string(*result.value), "first");

  result = other_->compare_set("k", ConstBytes("first"), "");
  EXPECT_TRUE(result.stored);
  EXPECT_EQ(to_string(*result.value), "");

  // Empty is a value, and not the same as absent.
  EXPECT_FALSE(store_->compare_set("k", std::nullopt, "third").stored);
  EXPECT_TRUE(store_->compare_set("k", ConstBytes(""), "third").stored);
  EXPECT_EQ(get("k"), "third");
}

TEST_P(StoreContract, CompareSetHasOneWinner) {
  std::atomic<int> winners{0};
  run_threads(8, [&](int i) {
    if (world_->open()
            ->compare_set("leader", std::nullopt, std::to_string(i))
            .stored) {
      ++winners;
    }
  });
  EXPECT_EQ(winners, 1);
}

TEST_P(StoreContract, DeleteSaysWhetherItDeleted) {
  store_->set("k", "v");
  EXPECT_TRUE(other_->delete_key("k"));
  EXPECT_FALSE(store_->check({"k"}));
  EXPECT_FALSE(store_->delete_key("k"));
  EXPECT_FALSE(store_->delete_key("never there"));
  EXPECT_EQ(store_->num_keys(), 0);
}

TEST_P(StoreContract, CheckNeedsAllKeysAndNeverBlocks) {
  store_->multi_set({"a", "b"}, {{}, {}});
  EXPECT_TRUE(other_->check({"a", "b"}));
  EXPECT_FALSE(other_->check({"a", "c"}));
  EXPECT_TRUE(other_->check({}));
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

TEST_P(StoreContract, AppendGrowsAValue) {
  store_->append("k", "one");
  other_->append("k", "");
  other_->append("k", "two");
  EXPECT_EQ(get("k"), "onetwo");
}

TEST_P(StoreContract, AppendedPiecesAllArrive) {
  run_threads(4, [&](int i) {
    auto handle = world_->open();
    for (int n = 0; n < 50; ++n) handle->append("k", std::string(1, 'a' + i));
  });
  const std::string all = get("k");
  for (char c : {'a', 'b', 'c', 'd'}) {
    EXPECT_EQ(std::count(all.begin(), all.end(), c), 50) << c;
  }
}

TEST_P(StoreContract, MultiSetAndGetKeepTheirOrder) {
  store_->multi_set({"a", "b", "c"}, {to_vector("1"), to_vector("2"), {}});
  const auto values = other_->multi_get({"c", "a", "b", "a"});
  EXPECT_THAT(values, ElementsAre(ByteVector{}, to_vector("1"), to_vector("2"),
                                  to_vector("1")));
}

TEST_P(StoreContract, MultiSetOfUnequalListsStoresNothing) {
  const auto text = message_of<UsageError>([&] {
    store_->multi_set({"a", "b"}, {to_vector("1")});
  });
  EXPECT_THAT(text, HasSubstr("2 keys but 1 values"));
  EXPECT_FALSE(store_->check({"a"}));
  EXPECT_FALSE(store_->check({"b"}));
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

TEST_P(StoreContract, NumKeysCountsTheUsersKeys) {
  EXPECT_EQ(store_->num_keys(), 0);
  store_->set("a/1", "");
  store_->add("a/2", 1);
  store_->set("b", "");
  store_->push("queue", "v");
  EXPECT_EQ(other_->num_keys(), 3);
  EXPECT_EQ(other_->num_keys("a/"), 2);
  EXPECT_EQ(other_->num_keys("nothing"), 0);
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

TEST_P(StoreContract, SizesAtTheLimitWorkAndOverItAreNamed) {
  const std::string long_key(kMostKeyBytes - 8, 'k');  // room for a prefix
  const std::string big(kMostValueBytes, 'v');
  store_->set(long_key, big);
  EXPECT_EQ(to_string(other_->get(long_key)), big);

  auto text = message_of<UsageError>(
      [&] { store_->set(std::string(kMostKeyBytes + 1, 'k'), ""); });
  EXPECT_THAT(text, HasSubstr("8192"));
  EXPECT_THAT(text, HasSubstr("8193"));
  text = message_of<UsageError>([&] { store_->set("k", big + "v"); });
  EXPECT_THAT(text, HasSubstr(std::to_string(kMostValueBytes)));
  EXPECT_THAT(text, HasSubstr(std::to_string(kMostValueBytes + 1)));
  EXPECT_THROW(store_->push("q", big + "v"), UsageError);
  EXPECT_THROW(store_->compare_set("k", std::nullopt, big + "v"), UsageError);
  EXPECT_THROW(store_->append(long_key, "v"), UsageError);
  EXPECT_FALSE(store_->check({"k"}));
  EXPECT_EQ(to_string(other_->get(long_key)), big);
}

TEST_P(StoreContract, ARequestHasAtMostSoManyKeys) {
  std::vector<std::string> keys(kMostKeysPerRequest, "k");
  store_->set("k", "");
  EXPECT_TRUE(store_->check(keys));
  keys.emplace_back("k");
  const auto text = message_of<UsageError>([&] { store_->check(keys); });
  EXPECT_THAT(text, HasSubstr("131072"));
  EXPECT_THAT(text, HasSubstr("131073"));
}

TEST_P(StoreContract, ARequestHasAtMostSoManyBytes) {
  const ByteVector big(kMostValueBytes);
  const std::vector<std::string> keys = {"1", "2", "3", "4", "5",
                                         "6", "7", "8", "9"};
  EXPECT_THROW(store_->multi_set(keys, std::vector<ByteVector>(9, big)),
               UsageError);
  EXPECT_FALSE(store_->check({"1"}));
  for (const auto& key : keys) store_->set(key, big);
  EXPECT_THROW(other_->multi_get(keys), UsageError);
  EXPECT_EQ(other_->multi_get({"1", "9"}).size(), 2U);
}

}  // namespace
}  // namespace lockstep

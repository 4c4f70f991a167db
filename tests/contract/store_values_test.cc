// SPDX-License-Identifier: Apache-2.0
// What every store promises about what it holds.
#include <algorithm>
#include <atomic>
#include <limits>

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
using testing::run_threads;

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

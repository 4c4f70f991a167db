// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/prefix_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/store/hash_store.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(PrefixStore, PutsItsPrefixBeforeKeysAndQueues) {
  auto hash = std::make_shared<HashStore>();
  PrefixStore store("job", hash);
  store.set("k", "v");
  store.push("q", "v");
  EXPECT_EQ(to_string(hash->get("job/k")), "v");
  EXPECT_EQ(hash->length("job/q"), 1);
}

TEST(PrefixStore, NestsAndKnowsWhatItLiesOver) {
  auto hash = std::make_shared<HashStore>();
  auto outer = std::make_shared<PrefixStore>("outer", hash);
  PrefixStore inner("inner", outer);
  inner.add("n", 3);
  EXPECT_EQ(to_string(hash->get("outer/inner/n")), "3");
  EXPECT_EQ(inner.underlying(), outer);
  EXPECT_EQ(inner.prefix(), "inner");
}

TEST(PrefixStore, TwoPrefixesDoNotMeet) {
  auto hash = std::make_shared<HashStore>();
  PrefixStore a("a", hash);
  PrefixStore ab("ab", hash);
  a.set("k", "1");
  ab.set("k", "2");
  EXPECT_EQ(to_string(a.get("k")), "1");
  EXPECT_EQ(a.num_keys(), 1);
  EXPECT_EQ(ab.num_keys(), 1);
  EXPECT_EQ(hash->num_keys(), 2);
}

TEST(PrefixStore, ErrorsNameTheWholeKey) {
  PrefixStore store("job", std::make_shared<HashStore>());
  try {
    store.get("k", Deadline::in(1ms));
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'job/k'"));
  }
}

TEST(PrefixStore, StartsWithTheTimeoutBelow) {
  auto hash = std::make_shared<HashStore>();
  hash->set_timeout(5s);
  EXPECT_EQ(PrefixStore("p", hash).timeout(), 5s);
}

TEST(PrefixStore, ThePrefixCountsTowardsTheLimit) {
  PrefixStore store("job", std::make_shared<HashStore>());
  EXPECT_THROW(store.set(std::string(kMostKeyBytes, 'k'), ""), UsageError);
}

TEST(PrefixStore, NeedsAStore) {
  EXPECT_THROW(PrefixStore("p", nullptr), UsageError);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What the contract suite cannot see from outside: what counts as a change,
// and what a request waits for.
#include "store/dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;

StoreRequest request(StoreOp op, std::vector<std::string> keys,
                     std::vector<ByteVector> values = {}, int64_t delta = 0) {
  return {op, std::move(keys), std::move(values), delta};
}

TEST(Dictionary, ReportsAChangeOnlyWhereThereIsOne) {
  Dictionary dictionary;
  const auto changes = [&](const StoreRequest& r) {
    return dictionary.apply(r)->changed;
  };
  EXPECT_TRUE(changes(request(StoreOp::kSet, {"k"}, {to_vector("v")})));
  EXPECT_FALSE(changes(request(StoreOp::kSet, {}, {})));
  EXPECT_FALSE(changes(request(StoreOp::kGet, {"k"})));
  EXPECT_FALSE(changes(request(StoreOp::kCheck, {"k"})));
  EXPECT_FALSE(changes(request(StoreOp::kWait, {"k"})));
  EXPECT_TRUE(changes(request(StoreOp::kAdd, {"n"}, {}, 0)));  // makes it
  EXPECT_FALSE(changes(request(StoreOp::kAdd, {"n"}, {}, 0)));
  EXPECT_TRUE(changes(request(StoreOp::kAdd, {"n"}, {}, 1)));
  EXPECT_FALSE(changes(request(StoreOp::kCompareSet, {"k"}, {{}})));
  EXPECT_FALSE(changes(request(StoreOp::kDelete, {"x"})));
  EXPECT_TRUE(changes(request(StoreOp::kDelete, {"k"})));
  EXPECT_TRUE(changes(request(StoreOp::kPush, {"q"}, {{}})));
  EXPECT_TRUE(changes(request(StoreOp::kPop, {"q"})));
  EXPECT_FALSE(changes(request(StoreOp::kLength, {"q"})));
}

TEST(Dictionary, SaysWhatARequestWaitsFor) {
  Dictionary dictionary;
  dictionary.apply(request(StoreOp::kSet, {"b"}, {{}}));
  const auto wait = request(StoreOp::kWait, {"a", "b", "c"});
  EXPECT_FALSE(dictionary.apply(wait));
  EXPECT_THAT(dictionary.missing(wait), ElementsAre("a", "c"));
  EXPECT_EQ(dictionary.first_missing(wait), "a");
  const auto pop = request(StoreOp::kPop, {"b"});  // the queue, not the key
  EXPECT_EQ(dictionary.first_missing(pop), "b");
  const auto check = request(StoreOp::kCheck, {"a"});  // never waits
  EXPECT_FALSE(dictionary.first_missing(check));
  EXPECT_TRUE(dictionary.missing(check).empty());
}

TEST(Dictionary, ClearForgetsKeysAndQueues) {
  Dictionary dictionary;
  dictionary.apply(request(StoreOp::kSet, {"k"}, {{}}));
  dictionary.apply(request(StoreOp::kPush, {"q"}, {{}}));
  dictionary.clear();
  EXPECT_EQ(dictionary.apply(request(StoreOp::kNumKeys, {""}))->reply.number,
            0);
  EXPECT_EQ(dictionary.apply(request(StoreOp::kLength, {"q"}))->reply.number,
            0);
}

}  // namespace
}  // namespace lockstep::detail

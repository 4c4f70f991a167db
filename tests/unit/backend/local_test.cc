// SPDX-License-Identifier: Apache-2.0
// What is particular to the local backend; the contract has the rest.
#include "lockstep/backend/local.h"

#include <gmock/gmock.h>

#include "backend/local/local_room.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::message_of;

GroupPlace place_of(const std::string& name, int rank, int size) {
  GroupPlace place;
  place.name = name;
  place.rank = rank;
  place.size = size;
  place.bell = std::make_shared<Bell>();
  return place;
}

TEST(LocalHub, RanksOfOneNameShareARoom) {
  detail::LocalHub hub;
  auto a = hub.enter(place_of("a", 0, 2));
  auto b = hub.enter(place_of("b", 0, 2));
  EXPECT_NE(a, b);
  EXPECT_EQ(hub.enter(place_of("a", 1, 2)), a);
  // All have come: the name is free again.
  EXPECT_NE(hub.enter(place_of("a", 0, 2)), a);
}

TEST(LocalHub, RefusesARankThatCameBefore) {
  detail::LocalHub hub;
  hub.enter(place_of("a", 0, 2));
  EXPECT_THAT(message_of<UsageError>([&] { hub.enter(place_of("a", 0, 2)); }),
              HasSubstr("rank 0 of group 'a' was made twice"));
}

TEST(LocalHub, RefusesAnotherSize) {
  detail::LocalHub hub;
  hub.enter(place_of("a", 0, 2));
  EXPECT_THAT(
      message_of<MismatchError>([&] { hub.enter(place_of("a", 1, 3)); }),
      HasSubstr("rank 1 says that group 'a' has 3 ranks, others say 2"));
}

TEST(LocalBackend, HasItsName) {
  auto groups = make_local_groups(2);
  EXPECT_STREQ(groups[0]->backend_name(), "local");
  EXPECT_EQ(groups[1]->rank(), 1);
}

TEST(LocalBackend, AGroupThatOnlyCallsInSyncHasNoThreads) {
  const int before = testing::running_threads();
  auto groups = make_local_groups(1);
  std::vector<float> x(10);
  CallOptions options;
  options.sync = true;
  groups[0]->all_reduce(buffer_of(x), ReduceOp::kSum, options);
  EXPECT_EQ(testing::running_threads(), before);
}

TEST(LocalBackend, FactoriesDoNotFindEachOther) {
  GroupOptions options;
  options.timeout = 50ms;
  auto a = ProcessGroup::make(make_local_factory(), nullptr, 0, 2, options);
  auto b = ProcessGroup::make(make_local_factory(), nullptr, 1, 2, options);
  auto from_a = a->barrier();
  auto from_b = b->barrier();
  message_of<TimeoutError>([&] { from_a->wait(); });
  message_of<TimeoutError>([&] { from_b->wait(); });
}

TEST(LocalBackend, MemoryThatCannotBeHadIsASystemError) {
  auto groups = make_local_groups(1);
  EXPECT_THAT(
      message_of<SystemError>([&] { groups[0]->allocate(size_t{1} << 62); }),
      HasSubstr("cannot allocate"));
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "bench_collective.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep::tool {
namespace {

using lockstep::testing::message_of;
using ::testing::HasSubstr;

TEST(BenchCollective, IsFoundByTheNameTheLibraryHasForIt) {
  for (const Collective& one : all_collectives()) {
    EXPECT_STREQ(collective_of(one.name).name, one.name);
    if (one.kind == OpKind::kSend) continue;
    EXPECT_STREQ(to_text(one.kind), one.name);
  }
  EXPECT_THAT(message_of<UsageError>([] { collective_of("all_redcue"); }),
              HasSubstr("no collective 'all_redcue'; there are all_reduce, "));
}

TEST(BenchCollective, FactorsAreTheUsualOnes) {
  struct Case {
    const char* name;
    double bus;
    double moved;
  };
  const std::vector<Case> cases = {
      {"all_reduce", 1.5, 8},
      {"broadcast", 1, 4},
      {"reduce", 1, 5},
      {"all_gather", 0.75, 5},
      {"gather", 0.75, 2},
      {"scatter", 0.75, 2},
      {"reduce_scatter", 0.75, 5},
      {"all_to_all", 0.75, 8},
      {"sendrecv", 1, 8},
      {"barrier", 1, 0},
  };
  ASSERT_EQ(cases.size(), all_collectives().size());
  for (const Case& one : cases) {
    const Collective& collective = collective_of(one.name);
    EXPECT_EQ(bus_factor(collective, 4), one.bus) << one.name;
    EXPECT_EQ(moved_factor(collective, 4), one.moved) << one.name;
  }
}

TEST(BenchCollective, SpeedsFollowFromTimes) {
  const Collective& all_reduce = collective_of("all_reduce");
  const Speed speed = speed_of(all_reduce, 4, 4'000'000, 1e-3, 2e-3);
  EXPECT_DOUBLE_EQ(speed.algorithm_gbs, 4);
  EXPECT_DOUBLE_EQ(speed.bus_gbs, 6);
  EXPECT_DOUBLE_EQ(speed.efficiency, 2);
  EXPECT_DOUBLE_EQ(
      speed_of(collective_of("broadcast"), 4, 4'000'000, 1e-3, 2e-3).efficiency,
      1);
  EXPECT_EQ(speed_of(all_reduce, 4, 4'000'000, 1e-3, 0).efficiency, 0);
  EXPECT_EQ(speed_of(collective_of("barrier"), 4, 0, 1e-3, 0).bus_gbs, 0);
}

}  // namespace
}  // namespace lockstep::tool

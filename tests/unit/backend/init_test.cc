// SPDX-License-Identifier: Apache-2.0
#include "lockstep/backend/init.h"

#include <gmock/gmock.h>

#include "lockstep/store/hash_store.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

// A place that does not depend on what started these tests.
InitOptions alone() {
  InitOptions options;
  options.rank = 0;
  options.size = 1;
  options.store = std::make_shared<HashStore>();
  return options;
}

TEST(Init, AloneIsAWorldOfOne) {
  InitOptions options = alone();
  options.name = "job";
  options.timeout = 33s;
  auto world = init(options);
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->name(), "job");
  EXPECT_EQ(world->timeout(), 33s);
  std::vector<float> x = {3};
  world->all_reduce(buffer_of(x))->wait();
  EXPECT_THAT(x, ElementsAre(3.0F));
}

TEST(Init, GivesAProcessSeveralRanks) {
  InitOptions options = alone();
  options.ranks_in_process = 3;
  options.backend = "local";
  auto worlds = init_ranks(options);
  ASSERT_EQ(worlds.size(), 3U);
  testing::run_threads(3, [&](int rank) {
    ProcessGroup& world = *worlds[static_cast<size_t>(rank)];
    EXPECT_EQ(world.rank(), rank);
    std::vector<int32_t> x = {rank};
    world.all_reduce(buffer_of(x))->wait();
    EXPECT_THAT(x, ElementsAre(3));
  });
}

TEST(Init, OneGroupIsForOneRank) {
  InitOptions options = alone();
  options.ranks_in_process = 2;
  EXPECT_THAT(message_of<UsageError>([&] { init(options); }),
              HasSubstr("init_ranks()"));
  options.ranks_in_process = 0;
  message_of<UsageError>([&] { init_ranks(options); });
}

TEST(Init, AnUnknownBackendIsRefusedWithThoseThereAre) {
  InitOptions options = alone();
  options.backend = "carrier pigeon";
  const auto text = message_of<UsageError>([&] { init(options); });
  EXPECT_THAT(text, HasSubstr("'carrier pigeon'"));
  for (const auto& name : backend_names()) EXPECT_THAT(text, HasSubstr(name));
  EXPECT_THAT(backend_names(), Contains("local"));
}

TEST(Init, LocalJoinsThreadsNotProcesses) {
  InitOptions options = alone();
  options.backend = "local";
  options.size = 2;
  EXPECT_THAT(message_of<UsageError>([&] { init(options); }),
              HasSubstr("threads of one process"));
}

}  // namespace
}  // namespace lockstep

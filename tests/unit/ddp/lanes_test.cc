// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/lanes.h"

#include <gmock/gmock.h>

#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::on_ranks;
using testing::SharedGroup;

TEST(Lanes, TheSameNameIsTheSameLane) {
  on_ranks(2, [](const SharedGroup& world) {
    Lanes lanes;
    lanes.open(world, {});
    const auto steps = lanes.get("steps");
    EXPECT_EQ(lanes.get("steps"), steps);
    EXPECT_NE(lanes.get("other"), steps);
    EXPECT_NE(lanes.own(), steps);
    steps->barrier()->wait();
  });
}

// Rank 1 waits on a lane that nobody fails, and hears of the other one.
TEST(Lanes, WhenOneFailsAllDoOnAllRanks) {
  on_ranks(2, [](const SharedGroup& world) {
    Lanes lanes;
    lanes.open(world, {});
    const auto steps = lanes.get("steps");
    const auto begin = Deadline::Clock::now();
    if (world->rank() == 0) {
      StepOptions fatal;
      fatal.fatal = true;
      auto step =
          steps->post([] { throw std::runtime_error("no luck"); }, fatal);
      EXPECT_THROW(step->wait(), std::runtime_error);
    }
    const auto wait = [&] { lanes.own()->barrier()->wait(); };
    EXPECT_THAT(message_of<AbortedError>(wait), HasSubstr("no luck"));
    EXPECT_NE(lanes.failure(), nullptr);
    EXPECT_NE(steps->failure(), nullptr);
    EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(10));
    world->barrier()->wait();
  });
}

TEST(Lanes, TheFirstErrorIsTheCauseOfAll) {
  on_ranks(1, [](const SharedGroup& world) {
    Lanes lanes;
    lanes.open(world, {});
    const auto steps = lanes.get("steps");
    steps->abort(std::make_exception_ptr(PeerError("rank 7 has left", 7)));
    EXPECT_THAT(message_of<AbortedError>([&] { lanes.own()->barrier(); }),
                HasSubstr("rank 7 has left"));
    EXPECT_THROW(std::rethrow_exception(lanes.failure()), PeerError);
  });
}

TEST(Lanes, AreNewAfterTheyAreOpenedAgain) {
  on_ranks(2, [](const SharedGroup& world) {
    Lanes lanes;
    lanes.open(world, {});
    const auto old = lanes.get("steps");
    lanes.abort("enough");
    lanes.open(world, {});
    EXPECT_EQ(lanes.failure(), nullptr);
    const auto steps = lanes.get("steps");
    EXPECT_NE(steps, old);
    steps->barrier()->wait();
    lanes.own()->barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep::detail

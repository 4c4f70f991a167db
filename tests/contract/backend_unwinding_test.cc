// SPDX-License-Identifier: Apache-2.0
// Once a call or a wait throws because the group has failed, nothing touches
// the memory of its operations: an exception may unwind past buffers that are
// in flight. fault/unwinding_test.cc does the same with ranks that die.
#include <array>
#include <random>
#include <thread>

#include "contract/backend_contract.h"
#include "support/rank_job.h"
#include "support/unwinding.h"

namespace lockstep {
namespace {

using testing::exchange_until_it_fails;
using testing::Traffic;

constexpr std::array<Traffic, 3> kTraffics = {
    {{true, false}, {false, true}, {true, true}}};

TEST_P(BackendContract, AnAbortUnwindsPastBuffersInFlight) {
  const uint32_t seed = testing::announced_seed();
  for (const Traffic traffic : kTraffics) {
    run_ranks(3, [&](ProcessGroup& world) {
      const Quickly quickly;
      auto group = short_group(world);
      Thread aborter;
      if (world.rank() == 1) {
        // Not to be right: so that it happens at another moment each time.
        const auto moment = std::chrono::microseconds(seed % 5000);
        aborter = Thread("aborter", [&group, moment] {
          std::this_thread::sleep_for(moment);
          group->abort("enough");
        });
      }
      EXPECT_THROW(exchange_until_it_fails(*group, traffic, seed),
                   AbortedError);
      aborter.join();
      world.barrier()->wait();
    });
  }
}

TEST_P(BackendContract, AMismatchUnwindsPastBuffersInFlight) {
  const uint32_t seed = testing::announced_seed();
  for (const Traffic traffic : {kTraffics[1], kTraffics[2]}) {
    run_ranks(3, [&](ProcessGroup& world) {
      const Quickly quickly;
      auto group = short_group(world);
      const auto is_wrong = [&](int round) {
        return world.rank() == 1 && round == 3;
      };
      // A later call throws AbortedError, as may a transfer.
      EXPECT_THROW(exchange_until_it_fails(*group, traffic, seed, is_wrong),
                   Error);
      EXPECT_EQ(failure_kind(*group), ErrorKind::kMismatch);
      world.barrier()->wait();
    });
  }
}

// It is what others would wait for, so it must not wait itself.
TEST_P(BackendContract, AStepMayCallItsFailedGroup) {
  run_ranks(2, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    if (world.rank() == 0) group->abort("enough");
    world.barrier()->wait();
    std::vector<float> x(1);
    // Rank 1 has not heard of it yet: it does in the step.
    EXPECT_THROW(
        {
          std::shared_ptr<Work> sent;
          group->post([&] { sent = group->send(buffer_of(x), group->rank()); })
              ->wait();
          sent->wait();
        },
        AbortedError);
    world.barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep

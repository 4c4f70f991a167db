// SPDX-License-Identifier: Apache-2.0
// Once a call or a wait throws because the group has failed, nothing touches
// the memory of its operations: an exception may unwind past buffers that are
// in flight. fault/unwinding_test.cc does the same with ranks that die.
#include <array>
#include <atomic>
#include <future>
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
    std::vector<float> x(1);
    auto step = group->post([&] {
      group->abort("enough");
      group->send(buffer_of(x), group->rank());
    });
    EXPECT_THROW(step->wait(), AbortedError);
    world.barrier()->wait();
  });
}

// A step that has not begun when the program hears of the failure must not
// begin: the program may have freed what it uses. The group has failed on rank
// 0, and on rank 1 nobody but the backend knows.
TEST_P(BackendContract, NoStepBeginsOnceTheProgramKnowsOfTheFailure) {
  run_ranks(2, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    std::vector<float> x(1);
    auto received = group->recv(buffer_of(x), 1 - group->rank());
    std::promise<void> all_posted;
    group->post([&] { all_posted.get_future().wait(); });
    std::atomic<int> begun{0};
    std::vector<std::shared_ptr<Work>> steps;
    for (int i = 0; i < 200; ++i) {
      steps.push_back(group->post([&begun] { ++begun; }));
    }
    world.barrier()->wait();
    if (world.rank() == 0) group->abort("enough");
    all_posted.set_value();
    EXPECT_THROW(received->wait(), AbortedError);
    const int before = begun;
    for (const auto& step : steps) {
      if (step->is_success()) continue;
      EXPECT_THROW(step->wait(), AbortedError);
    }
    EXPECT_EQ(begun, before);
    world.barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep

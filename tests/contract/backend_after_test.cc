// SPDX-License-Identifier: Apache-2.0
// Order between two lanes: what follows something of another lane is queued
// beforehand, and waits for it in its turn.
#include <random>
#include <stdexcept>
#include <thread>

#include "contract/backend_contract.h"
#include "support/rank_job.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::message_of;

CallOptions following(const Future<void>& after) {
  CallOptions options;
  options.after = after;
  return options;
}

StepOptions fatal_after(const Future<void>& after) {
  StepOptions options;
  options.after = after;
  options.fatal = true;
  return options;
}

TEST_P(BackendContract, AnOperationKeepsItsPlaceWhileItWaitsForAnotherLane) {
  run_ranks(3, [](ProcessGroup& group) {
    const Quickly quickly;
    Promise<void> gate;
    std::vector<int32_t> x = {0};
    auto first = group.all_reduce(buffer_of(x), ReduceOp::kSum,
                                  following(gate.future()));
    auto second = group.barrier();
    std::this_thread::sleep_for(1ms * group.rank());
    EXPECT_FALSE(first->is_completed());
    EXPECT_FALSE(second->is_completed());
    x[0] = 1;  // ours until the gate opens
    gate.set_value();
    second->wait();
    EXPECT_TRUE(first->is_success());
    EXPECT_EQ(x[0], 3);
  });
}

TEST_P(BackendContract, ASyncCallWaitsForAnotherLaneToo) {
  run_ranks(2, [](ProcessGroup& group) {
    const Quickly quickly;
    auto other = group.duplicate("other");
    std::vector<int32_t> x = {1};
    CallOptions options = following(other->all_reduce(buffer_of(x))->future());
    options.sync = true;
    group.all_reduce(buffer_of(x), ReduceOp::kSum, options);
    EXPECT_EQ(x[0], 4);
  });
}

// Reduce on one lane; step the own piece and send it round on the other.
TEST_P(BackendContract, ALaneIsAProgramThatFollowsAnother) {
  const uint32_t seed = testing::announced_seed();
  run_ranks(3, [&](ProcessGroup& group) {
    const Quickly quickly;
    auto steps = group.duplicate("steps");
    std::mt19937 random(seed + static_cast<uint32_t>(group.rank()));
    const auto delay = [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    };
    std::vector<int32_t> weights(3, 0);
    for (int32_t round = 1; round <= 20; ++round) {
      std::vector<std::vector<int32_t>> gradients(3,
                                                  std::vector<int32_t>{round});
      std::vector<std::shared_ptr<Work>> works;
      for (int owner = 0; owner < 3; ++owner) {
        delay();
        auto& gradient = gradients[static_cast<size_t>(owner)];
        auto& weight = weights[static_cast<size_t>(owner)];
        auto reduced = group.all_reduce(buffer_of(gradient));
        works.push_back(reduced);
        if (owner == group.rank()) {
          steps->post([&gradient, &weight] { weight += gradient[0]; },
                      fatal_after(reduced->future()));
        }
        works.push_back(steps->broadcast(buffer_of(&weight, 1), owner));
      }
      for (const auto& one : works) one->wait();
      EXPECT_THAT(weights, Each(3 * round * (round + 1) / 2));
    }
  });
}

TEST_P(BackendContract, AFailedFutureFailsTheOperationAndItsGroup) {
  run_ranks(2, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    Promise<void> gate;
    auto work = group->barrier(following(gate.future()));
    if (group->rank() == 0) {
      gate.set_error(
          std::make_exception_ptr(std::runtime_error("no gradients")));
      EXPECT_THAT(message_of<std::runtime_error>([&] { work->wait(); }),
                  HasSubstr("no gradients"));
    } else {
      gate.set_value();
      const std::string text = message_of<AbortedError>([&] { work->wait(); });
      EXPECT_THAT(text, HasSubstr("rank 0"));
      EXPECT_THAT(text, HasSubstr("no gradients"));
    }
    EXPECT_NE(group->failure(), nullptr);
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, AFatalStepThatThrowsEndsTheGroup) {
  run_ranks(3, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    std::vector<int32_t> x = {group->rank()};
    StepOptions fatal;
    fatal.fatal = true;
    auto step = group->post(
        [&] {
          if (group->rank() == 1) throw std::runtime_error("no luck");
        },
        fatal);
    auto stale = group->broadcast(buffer_of(x), 1);
    const std::string text = message_of<Error>([&] { stale->wait(); });
    EXPECT_THAT(text, HasSubstr("no luck"));
    EXPECT_EQ(x[0], group->rank());
    if (group->rank() == 1) {
      EXPECT_THROW(step->wait(), std::runtime_error);
    } else {
      EXPECT_THAT(text, HasSubstr("rank 1"));
    }
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, AStepThatFollowsAFailureIsNotRun) {
  run_ranks(2, [](ProcessGroup& group) {
    StepOptions options;
    options.after = make_failed_future<void>(
        std::make_exception_ptr(std::runtime_error("no luck")));
    bool has_run = false;
    auto step = group.post([&] { has_run = true; }, options);
    EXPECT_THROW(step->wait(), std::runtime_error);
    EXPECT_FALSE(has_run);
    group.barrier()->wait();  // it goes on
  });
}

TEST_P(BackendContract, WaitingForAnotherLaneEndsWithTheGroup) {
  run_ranks(2, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    Promise<void> never;
    StepOptions options;
    options.after = never.future();
    bool has_run = false;
    auto step = group->post([&] { has_run = true; }, options);
    auto work = group->barrier(following(never.future()));
    world.barrier()->wait();
    if (group->rank() == 1) group->abort("enough");
    EXPECT_THROW(step->wait(), AbortedError);
    EXPECT_THROW(work->wait(), AbortedError);
    EXPECT_FALSE(has_run);
    world.barrier()->wait();
  });
}

TEST_P(BackendContract, WaitingForAnotherLaneHasADeadline) {
  run_ranks(1, [](ProcessGroup& group) {
    Promise<void> never;
    CallOptions options = following(never.future());
    options.timeout = 20ms;
    auto work = group.barrier(options);
    EXPECT_THAT(message_of<TimeoutError>([&] { work->wait(); }),
                HasSubstr("what it follows was not ready after 20 ms"));
  });
}

TEST_P(BackendContract, MessagesFollowNothing) {
  run_ranks(1, [](ProcessGroup& group) {
    std::vector<float> x(1);
    const auto send = [&] {
      group.send(buffer_of(x), 0, 0, following(ready_future()));
    };
    EXPECT_THAT(message_of<UsageError>(send), HasSubstr("local step"));
    group.barrier()->wait();
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/step_clock.h"

#include <thread>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

TEST(StepClock, CountsWhatIsWaitedForAsExposed) {
  StepClock clock;
  clock.prepare(2);
  clock.note_ready(1);
  clock.begin_backward(2);
  Promise<at::Tensor> quick;
  Promise<at::Tensor> slow;
  clock.launch(0, clock.last().backward.start.time_since_epoch().count() + 1,
               quick.future());
  quick.set_value(at::Tensor());
  clock.launch(1, 1, slow.future());
  clock.begin_waits();
  EXPECT_TRUE(clock.wait(quick.future(), Deadline::in(0s)));
  EXPECT_FALSE(clock.wait(slow.future(), Deadline::in(5ms)));
  std::thread other([&] { slow.set_value(at::Tensor()); });
  EXPECT_TRUE(clock.wait(slow.future(), Deadline::in(10s)));
  other.join();
  clock.end_waits();
  clock.end();
  EXPECT_GE(clock.last().exposed, 5ms);
  EXPECT_GT(clock.last().busy, 0ns);
  EXPECT_EQ(clock.totals().steps, 1);
  EXPECT_EQ(clock.totals().exposed, clock.last().exposed);
  ASSERT_EQ(clock.ready_times().size(), 2U);
  EXPECT_EQ(clock.ready_times()[0], 0ns);  // it never came
  EXPECT_GE(clock.ready_times()[1], 0ns);
}

TEST(StepClock, ABucketThatWasNotLaunchedTakesNoTime) {
  StepClock clock;
  clock.prepare(1);
  clock.begin_backward(1);
  clock.begin_waits();
  clock.end_waits();
  clock.end();
  EXPECT_EQ(clock.last().busy, 0ns);
  EXPECT_EQ(clock.totals().steps, 1);
}

}  // namespace
}  // namespace lockstep::detail

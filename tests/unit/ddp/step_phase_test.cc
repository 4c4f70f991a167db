// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/step_phase.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(StepPhase, GoesThroughAStepInOrder) {
  StepPhase phase;
  EXPECT_TRUE(phase.is(Phase::kIdle));
  EXPECT_TRUE(phase.is_between_steps());
  phase.enter(Phase::kExpecting);
  EXPECT_TRUE(phase.is_between_steps());
  phase.enter(Phase::kReducing);
  EXPECT_FALSE(phase.is_between_steps());
  EXPECT_TRUE(phase.is_under_way());
  phase.enter(Phase::kFinalizing);
  EXPECT_TRUE(phase.is_under_way());
  phase.enter(Phase::kIdle);
  EXPECT_FALSE(phase.is_under_way());
}

TEST(StepPhase, NoneIsLeftOut) {
  StepPhase phase;
  EXPECT_THROW(phase.enter(Phase::kReducing), Error);
  EXPECT_THROW(phase.enter(Phase::kFailed), Error);
  phase.enter(Phase::kExpecting);
  EXPECT_THROW(phase.enter(Phase::kFinalizing), Error);
  EXPECT_TRUE(phase.is(Phase::kExpecting));
}

TEST(StepPhase, CallsInTheMiddleOfABackwardAreRefusedByName) {
  StepPhase phase;
  phase.enter(Phase::kExpecting);
  phase.check_between_steps("set_divisor");
  phase.enter(Phase::kReducing);
  phase.check_usable();
  EXPECT_THAT(
      message_of<UsageError>([&] { phase.check_between_steps("set_divisor"); }),
      AllOf(HasSubstr("set_divisor was called"),
            HasSubstr("the Reducer is in a backward")));
}

TEST(StepPhase, AFailureStaysUntilReset) {
  StepPhase phase;
  phase.fail(std::make_exception_ptr(TimeoutError("rank 1 is late")));
  EXPECT_TRUE(phase.is(Phase::kFailed));
  EXPECT_THROW(std::rethrow_exception(phase.error()), TimeoutError);
  const auto text = AllOf(HasSubstr("failed in an earlier step"),
                          HasSubstr("rank 1 is late"));
  EXPECT_THAT(message_of<AbortedError>([&] { phase.check_usable(); }), text);
  EXPECT_THAT(message_of<AbortedError>([&] { phase.check_between_steps("x"); }),
              text);
  phase.reset();
  EXPECT_EQ(phase.error(), nullptr);
  phase.check_between_steps("x");
}

}  // namespace
}  // namespace lockstep::detail

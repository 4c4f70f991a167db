// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/caller_state.h"

#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/future.h"
#include "support/message_of.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

thread_local int mode = 0;

// Carries `mode` as a tensor library would carry its gradient mode.
Callback carry_mode(Callback callback) {
  return [callback = std::move(callback), carried = mode] {
    const int before = mode;
    mode = carried;
    callback();
    mode = before;
  };
}

struct WithCarrier {
  WithCarrier() { set_state_carrier(carry_mode); }
  ~WithCarrier() { set_state_carrier(nullptr); }
};

TEST(CallerState, WithoutACarrierACallbackStaysAsItIs) {
  int calls = 0;
  with_caller_state([&] { ++calls; })();
  EXPECT_EQ(calls, 1);
}

TEST(CallerState, ACarrierTakesTheCallersStateAlong) {
  const WithCarrier carrier;
  mode = 7;
  int seen = 0;
  int after = -1;
  const Callback callback = with_caller_state([&] { seen = mode; });
  mode = 0;
  std::thread([&] {
    callback();
    after = mode;
  }).join();
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(after, 0);
}

TEST(CallerState, ContinuationsRunInTheStateOfWhoWroteThem) {
  const WithCarrier carrier;
  Promise<void> promise;
  int first = 0;
  int second = 0;
  mode = 1;
  auto a = promise.future().then([&] { first = mode; });
  mode = 2;
  auto b = a.then([&] { second = mode; });
  mode = 0;
  std::thread([&] { promise.set_value(); }).join();
  b.get(Deadline::in(10s));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST(NoWaitScope, ForbidsWaitingOnThisThreadOnly) {
  Promise<int> promise;
  {
    const NoWaitScope scope;
    EXPECT_TRUE(NoWaitScope::is_active());
    EXPECT_THAT(testing::message_of<UsageError>(
                    [&] { promise.future().get(Deadline::in(1s)); }),
                HasSubstr("lane thread"));
    std::thread([] { EXPECT_FALSE(NoWaitScope::is_active()); }).join();
    { const NoWaitScope inner; }
    EXPECT_TRUE(NoWaitScope::is_active());
    promise.set_value(3);
    EXPECT_EQ(promise.future().get(Deadline::in(1s)), 3);  // no wait
  }
  EXPECT_FALSE(NoWaitScope::is_active());
}

}  // namespace
}  // namespace lockstep

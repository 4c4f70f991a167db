// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/delayed_gradients.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using testing::is_all;
using testing::on_ranks;
using testing::parameter;
using testing::SharedGroup;
using namespace std::chrono_literals;

// Parameters 'a' and 'b' are delayed, of two types; 't' is the trigger.
struct Delay {
  explicit Delay(const SharedGroup& world, ReducerOptions options = {})
      : rank(world->rank()) {
    ModelParts parts;
    parts.parameters.push_back({"t", t});
    parts.parameters.push_back({"a", a, true, false, true});
    parts.parameters.push_back({"b", b, true, false, true});
    delayed = DelayedGradients::make(parts, "t", world, std::move(options));
  }

  Reducer& reducer() const { return delayed->reducer(); }
  // Rank r's gradients are r + 1.
  void give_gradients() const {
    for (const at::Tensor& one : {a, b}) {
      one.mutable_grad() = at::full_like(one, rank + 1);
    }
    reducer().prepare_for_backward({});
    for (size_t i = 0; i < 2; ++i) reducer().mark_ready(i);
  }
  // Completes when the lane has come past the reductions.
  Future<void> mark() const {
    return reducer().group()->post([] {})->future();
  }
  void expect_averages() const {
    EXPECT_TRUE(is_all(a.grad(), 1.5));
    EXPECT_TRUE(is_all(b.grad(), 1.5));
  }

  const int rank;
  const at::Tensor t = parameter({2});
  const at::Tensor a = parameter({3});
  const at::Tensor b = parameter({4}, at::kDouble);
  std::shared_ptr<DelayedGradients> delayed;
};

TEST(DelayedGradients, HaveABucketForEachTypeWhateverTheOthersHave) {
  on_ranks(1, [](const SharedGroup& world) {
    ReducerOptions options;
    options.bucket_plan = BucketPlan{{{{0}}}};  // of the parameter 't'
    const Delay one(world, options);
    const auto& buckets = one.reducer().bucket_plan().buckets;
    ASSERT_EQ(buckets.size(), 2U);
    EXPECT_THAT(buckets[0].items, ::testing::ElementsAre(0));
    EXPECT_THAT(buckets[1].items, ::testing::ElementsAre(1));
  });
}

TEST(DelayedGradients, AreQueuedAtOnceAndWaitForTheTrigger) {
  on_ranks(2, [](const SharedGroup& world) {
    const Delay one(world);
    for (int i = 0; i < 3; ++i) {
      const int64_t before = one.reducer().group()->sequence_number();
      one.give_gradients();
      EXPECT_EQ(one.reducer().group()->sequence_number(), before + 2);
      const Future<void> mark = one.mark();
      EXPECT_FALSE(mark.wait(Deadline::in(5ms)));
      one.delayed->on_gradient(0);
      EXPECT_TRUE(mark.wait(Deadline::in(30s)));
      one.reducer().finish_backward();
      one.expect_averages();
    }
  });
}

TEST(DelayedGradients, DoNotWaitForATriggerThatCameFirst) {
  on_ranks(2, [](const SharedGroup& world) {
    const Delay one(world);
    one.delayed->on_gradient(0);
    one.give_gradients();
    EXPECT_TRUE(one.mark().wait(Deadline::in(30s)));
    one.reducer().finish_backward();
    one.expect_averages();
    one.give_gradients();  // and the next backward waits again
    EXPECT_FALSE(one.mark().wait(Deadline::in(5ms)));
    one.reducer().finish_backward();
  });
}

TEST(DelayedGradients, AreSentAtTheEndOfABackwardWithoutTheTrigger) {
  on_ranks(2, [](const SharedGroup& world) {
    const Delay one(world);
    one.give_gradients();
    one.reducer().finish_backward();
    one.expect_averages();
  });
}

TEST(DelayedGradients, HearOfTheTriggerFromAutograd) {
  on_ranks(2, [](const SharedGroup& world) {
    const Delay one(world);
    bool came = false;
    one.t.register_hook([&](const at::Tensor& gradient) {
      came = true;
      return gradient;
    });
    const at::Tensor loss =
        (one.a.sum() + one.b.sum() + one.t.sum()) * (one.rank + 1);
    one.reducer().prepare_for_backward({loss});
    loss.backward();
    EXPECT_TRUE(came);
    one.expect_averages();
    EXPECT_TRUE(
        is_all(one.t.grad(), one.rank + 1));  // not delayed, so not ours
  });
}

// The lane waits for a trigger that will not come: a reset ends the wait.
TEST(DelayedGradients, BeginAnewAfterAResetInTheMiddle) {
  on_ranks(2, [](const SharedGroup& world) {
    const Delay one(world);
    one.give_gradients();
    one.reducer().reset_state();
    one.delayed->set_hook();
    one.give_gradients();
    one.delayed->on_gradient(0);
    one.reducer().finish_backward();
    one.expect_averages();
  });
}

TEST(DelayedGradients, MayGoWhileTheLaneWaits) {
  on_ranks(2, [](const SharedGroup& world) {
    const auto begin = Deadline::Clock::now();
    {
      const Delay one(world);
      one.give_gradients();
    }
    EXPECT_LT(Deadline::Clock::now() - begin, 10s);
    world->barrier()->wait();
  });
}

// The timeout is for ranks that wait for each other, not for this rank's own
// backward.
TEST(DelayedGradients, TheWaitForTheTriggerHasNoTimeout) {
  on_ranks(1, [](const SharedGroup& world) {
    ReducerOptions options;
    options.timeout = 20ms;
    const Delay one(world, options);
    one.give_gradients();
    EXPECT_FALSE(one.mark().wait(Deadline::in(60ms)));
    one.delayed->on_gradient(0);
    one.reducer().finish_backward();
    EXPECT_TRUE(is_all(one.a.grad(), 1));
  });
}

}  // namespace
}  // namespace lockstep::detail

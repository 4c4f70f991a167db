// SPDX-License-Identifier: Apache-2.0
#include "ddp/reducer/backward_tracker.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using Reached = BackwardTracker::Reached;

// Does with a tracker what a Reducer does, and writes down what it hears.
class Watcher : public BackwardListener {
 public:
  void on_gradient(size_t /*parameter*/) override {}
  void on_output(uint64_t graph) override {
    reached.push_back(tracker.reach(graph));
    tracker.follow_this_task([this](const EngineTask& task) {
      tracker.close(task);
      ends.push_back(tracker.has_open_task());
    });
  }

  BackwardTracker tracker;
  std::vector<Reached> reached;
  std::vector<bool> ends;  // at each: whether another is still open
};

class BackwardTrackerTest : public ::testing::Test {
 protected:
  at::Tensor forward() { return (weight_ * 2).sum(); }
  void expect(const at::Tensor& output, bool needs_end = false) {
    watcher_->tracker.expect({output}, watcher_, needs_end);
  }
  BackwardTracker& tracker() { return watcher_->tracker; }

  const std::shared_ptr<Watcher> watcher_ = std::make_shared<Watcher>();
  at::Tensor weight_ = torch::ones({3}, at::requires_grad());
};

TEST_F(BackwardTrackerTest, HearsOfAPreparedForwardOnceAndOfItsEnd) {
  const at::Tensor loss = forward();
  EXPECT_FALSE(tracker().expects_gradients());
  expect(loss);
  EXPECT_TRUE(tracker().expects_gradients());
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THAT(watcher_->reached, ElementsAre(Reached::kPrepared));
  EXPECT_THAT(watcher_->ends, ElementsAre(false));
  EXPECT_FALSE(tracker().end_cycle());
  EXPECT_FALSE(tracker().expects_gradients());
  loss.backward();
  EXPECT_EQ(watcher_->reached.back(), Reached::kReduced);
}

TEST_F(BackwardTrackerTest, AnotherForwardMayStillHaveItsBackward) {
  const at::Tensor first = forward();
  const at::Tensor second = forward();
  expect(first);
  expect(second);
  first.backward();
  EXPECT_TRUE(tracker().end_cycle());
  // Its gradients count only once backward has come to it.
  EXPECT_FALSE(tracker().expects_gradients());
  second.backward();
  EXPECT_THAT(watcher_->reached,
              ElementsAre(Reached::kPrepared, Reached::kPrepared));
  EXPECT_FALSE(tracker().end_cycle());
}

TEST_F(BackwardTrackerTest, AForwardWhoseGraphIsGoneIsForgotten) {
  expect(forward());
  EXPECT_FALSE(tracker().expects_gradients());
  EXPECT_FALSE(tracker().end_cycle());
}

TEST_F(BackwardTrackerTest, OutputsWithoutHistoryAreNotWatched) {
  expect(torch::ones({1}));
  EXPECT_TRUE(tracker().expects_gradients());
  EXPECT_FALSE(tracker().end_cycle());
  EXPECT_FALSE(tracker().expects_gradients());
  EXPECT_THAT(message_of<UsageError>([&] { expect(torch::ones({1}), true); }),
              HasSubstr("must know where a backward ends"));
}

TEST_F(BackwardTrackerTest, AfterAResetOldForwardsAreNobodysBusiness) {
  const at::Tensor old = forward();
  expect(old);
  tracker().reset();
  old.backward();
  EXPECT_THAT(watcher_->reached, ElementsAre(Reached::kForgotten));
}

TEST_F(BackwardTrackerTest, ABackwardThatThrowsIsNotOpenAnyMore) {
  const at::Tensor middle = weight_ * 2;
  middle.register_hook([](const at::Tensor& gradient) -> at::Tensor {
    throw std::runtime_error("no luck");
    return gradient;
  });
  const at::Tensor loss = middle.sum();
  expect(loss);
  EXPECT_ANY_THROW(loss.backward());
  EXPECT_FALSE(tracker().has_open_task());
  EXPECT_THAT(watcher_->ends, IsEmpty());
}

// A backward inside of another: the outer one ends last.
TEST_F(BackwardTrackerTest, TheOutermostBackwardIsTheLastToClose) {
  const at::Tensor inner = forward();
  const at::Tensor middle = weight_ * 3;
  middle.register_hook([&](const at::Tensor& gradient) {
    inner.backward();
    return gradient;
  });
  const at::Tensor outer = middle.sum();
  expect(inner);
  expect(outer);
  outer.backward();
  EXPECT_THAT(watcher_->ends, ElementsAre(true, false));
}

}  // namespace
}  // namespace lockstep::detail

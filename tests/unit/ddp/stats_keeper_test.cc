// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/stats_keeper.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "support/message_of.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::parameter;
using namespace std::chrono_literals;

StepTimes::TimePoint at_ms(int ms) {
  return StepTimes::TimePoint(std::chrono::milliseconds(ms));
}

// A step whose backward takes from 10 to 10 + `backward`, and communication
// from 15 to 15 + `communication`.
StepReport report_of(int64_t step, int backward = 10, int communication = 10) {
  StepReport report;
  report.all_steps.steps = step;
  report.last_step.backward = {at_ms(10), at_ms(10 + backward)};
  report.last_step.communication = {at_ms(15), at_ms(15 + communication)};
  report.comm_hook = "mine";
  return report;
}

class StatsKeeperTest : public ::testing::Test {
 protected:
  StatsKeeperTest() {
    parts_.model_name = "Net";
    parts_.parameters.push_back({"a", parameter({2})});
    parts_.parameters.push_back({"frozen", at::ones({9}), false});
    parts_.parameters.push_back({"b", parameter({3}, at::kDouble)});
    parts_.parameters.push_back({"late", parameter({9}), true, false, true});
    parts_.parameters.push_back({"c", parameter({1})});
  }
  StatsKeeper make() const { return {parts_, *group_, options_}; }

  // A step of the wrapper, in the order in which it calls the keeper.
  static void step(StatsKeeper& keeper, int64_t iteration) {
    keeper.begin_iteration(iteration);
    keeper.begin_forward();
    keeper.end_forward();
    keeper.note_step(report_of(iteration));
  }

  const testing::SharedGroup group_ = std::move(make_local_groups(1)[0]);
  ModelParts parts_;
  DdpOptions options_;
};

TEST_F(StatsKeeperTest, CountsParametersThatAreReducedWithTheOthers) {
  const StatsKeeper keeper = make();
  const DdpStats& stats = keeper.report();
  EXPECT_EQ(stats.module_name, "Net");
  EXPECT_EQ(stats.num_parameter_tensors, 3U);
  EXPECT_EQ(stats.total_parameter_size_bytes, 8U + 24 + 4);
  EXPECT_THAT(stats.dtypes, ElementsAre("Float", "Double"));
  EXPECT_EQ(stats.backend_name, "local");
  EXPECT_EQ(stats.comm_hook, "all_reduce");
}

TEST_F(StatsKeeperTest, RefusesASampleRateBelowOne) {
  options_.stats_sample_rate = 0;
  EXPECT_THAT(message_of<UsageError>([&] { make(); }),
              HasSubstr("stats_sample_rate is 0"));
}

TEST_F(StatsKeeperTest, TakesTheTimesOfAStepOnce) {
  StatsKeeper keeper = make();
  step(keeper, 1);
  keeper.note_step(report_of(1));
  EXPECT_EQ(keeper.report().samples, 1);
  EXPECT_EQ(keeper.report().steps, 1);
  EXPECT_EQ(keeper.report().comm_hook, "mine");
  EXPECT_EQ(keeper.report().last_step.backward.duration(), 10ms);
  EXPECT_TRUE(keeper.report().last_step.forward.is_measured());
}

TEST_F(StatsKeeperTest, SamplesTheFirstTenStepsAndThenEveryNth) {
  options_.stats_sample_rate = 4;
  StatsKeeper keeper = make();
  std::vector<int64_t> sampled;
  for (int64_t i = 1; i <= 17; ++i) {
    const int64_t before = keeper.report().samples;
    step(keeper, i);
    if (keeper.report().samples > before && i > 10) sampled.push_back(i);
  }
  EXPECT_EQ(keeper.report().samples, 10 + 2);
  EXPECT_THAT(sampled, ElementsAre(12, 16));
  EXPECT_EQ(keeper.report().steps, 17);
}

TEST_F(StatsKeeperTest, AveragesAndTellsWhatBackwardHasHidden) {
  StatsKeeper keeper = make();
  step(keeper, 1);  // backward 10..20, communication 15..25
  EXPECT_EQ(keeper.report().backward_compute_comm_overlap_time, 5ms);
  keeper.begin_iteration(2);
  keeper.note_step(report_of(2, 30, 20));  // 10..40, 15..35
  const DdpStats& stats = keeper.report();
  EXPECT_EQ(stats.backward_compute_time, 30ms);
  EXPECT_EQ(stats.avg_backward_compute_time, 20ms);
  EXPECT_EQ(stats.avg_backward_comm_time, 15ms);
  EXPECT_EQ(stats.backward_compute_comm_overlap_time, 20ms);
  EXPECT_EQ(stats.avg_backward_compute_comm_overlap_time, 12500us);
}

// Communication that began after backward had ended was not hidden.
TEST_F(StatsKeeperTest, NothingHiddenIsNotANegativeTime) {
  StatsKeeper keeper = make();
  keeper.begin_forward();
  keeper.end_forward();
  keeper.note_step(report_of(1, 2, 10));  // backward until 12, from 15 on
  EXPECT_EQ(keeper.report().samples, 1);
  EXPECT_EQ(keeper.report().backward_compute_comm_overlap_time, 0ms);
}

TEST_F(StatsKeeperTest, AStepWithoutAForwardIsNotSampled) {
  StatsKeeper keeper = make();
  keeper.note_step(report_of(1));
  EXPECT_EQ(keeper.report().samples, 0);
  EXPECT_EQ(keeper.report().steps, 1);
}

TEST_F(StatsKeeperTest, ReportsWhatTheReducerTells) {
  StatsKeeper keeper = make();
  const BucketPlan first{{{{2, 1}}, {{0}}}};
  const BucketPlan rebuilt{{{{0}}, {{1}}, {{2}}}};
  keeper.note_buckets(*group_, first);
  StepReport steps = report_of(1);
  steps.unused_parameters = {0, 2};
  steps.backward_times = {3ms, 1ms, 2ms};
  DdpStats stats = keeper.report(steps, first);
  EXPECT_THAT(stats.bucket_sizes, ElementsAre(28, 8));
  EXPECT_EQ(stats.unused_parameter_size, 12U);
  EXPECT_THAT(stats.prev_iteration_grad_ready_order_indices,
              ElementsAre(1, 2, 0));
  EXPECT_TRUE(stats.rebuilt_bucket_sizes.empty());
  EXPECT_TRUE(stats.can_set_static_graph);
  EXPECT_FALSE(stats.has_error);

  steps.has_rebuilt_buckets = true;
  steps.is_graph_static = false;
  steps.error = std::make_exception_ptr(UsageError("no luck"));
  stats = keeper.report(steps, rebuilt);
  EXPECT_THAT(stats.bucket_sizes, ElementsAre(28, 8));
  EXPECT_THAT(stats.rebuilt_bucket_sizes, ElementsAre(8, 24, 4));
  EXPECT_EQ(stats.rebuilt_per_bucket_param_indices.size(), 3U);
  EXPECT_FALSE(stats.can_set_static_graph);
  EXPECT_TRUE(stats.has_error);
  EXPECT_THAT(stats.error, HasSubstr("no luck"));
}

}  // namespace
}  // namespace lockstep::detail

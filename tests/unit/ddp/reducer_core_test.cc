// SPDX-License-Identifier: Apache-2.0
// What the core of a Reducer tells of its steps.
#include "ddp/reducer/reducer_core.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "unit/ddp/ddp_ranks.h"

namespace lockstep::detail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::on_ranks;
using testing::SharedGroup;
using testing::Tensors;

void core_step(ReducerCore& core, const Tensors& used) {
  core.prepare_for_forward();
  const at::Tensor loss = testing::loss_of(used, 1);
  core.prepare_for_backward({loss});
  loss.backward();
}

TEST(ReducerCore, ReportsWhatItHasDone) {
  on_ranks(2, [](const SharedGroup& group) {
    const Tensors parameters = testing::some_parameters(2);
    ReducerOptions options;
    options.find_unused_parameters = true;
    const auto core = ReducerCore::make(parameters, group, options);
    StepReport report = core->report();
    EXPECT_EQ(report.iterations, 0);
    EXPECT_THAT(report.backward_times, IsEmpty());
    EXPECT_THAT(report.unused_parameters, IsEmpty());
    EXPECT_TRUE(report.is_graph_static);

    core_step(*core, {parameters[1]});
    core_step(*core, {parameters[0]});
    core->prepare_for_forward();  // without a backward
    report = core->report();
    EXPECT_EQ(report.iterations, 3);
    EXPECT_EQ(report.backwards, 2);
    EXPECT_EQ(report.all_steps.steps, 2);
    EXPECT_TRUE(report.last_step.backward.is_measured());
    EXPECT_EQ(report.backward_times.size(), 2U);
    EXPECT_THAT(report.unused_parameters, ElementsAre(1));
    EXPECT_FALSE(report.is_graph_static);
    EXPECT_FALSE(report.has_rebuilt_buckets);
    EXPECT_EQ(report.comm_hook, "all_reduce");
    EXPECT_EQ(report.error, nullptr);
  });
}

TEST(ReducerCore, ReportsTheErrorUntilItIsReset) {
  on_ranks(1, [](const SharedGroup& group) {
    const Tensors parameters = testing::some_parameters(2);
    const auto core = ReducerCore::make(parameters, group, {});
    EXPECT_THROW(core_step(*core, {parameters[0]}), UsageError);
    EXPECT_THROW(std::rethrow_exception(core->report().error), UsageError);
    core->reset();
    EXPECT_EQ(core->report().error, nullptr);
    core_step(*core, parameters);
    core_step(*core, parameters);
    EXPECT_TRUE(core->report().has_rebuilt_buckets);
  });
}

}  // namespace
}  // namespace lockstep::detail

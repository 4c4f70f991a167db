// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trace/trace.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/backend/local.h"
#include "support/support.h"

namespace lockstep {
namespace {

using trace::Event;
using trace::EventKind;

// What was recorded for one rank on threads whose name begins with `thread`.
std::vector<Event> events_of(int rank, const std::string& thread) {
  std::vector<Event> found;
  for (const auto& one : trace::snapshot()) {
    if (one.rank != rank || one.thread_name.rfind(thread, 0) != 0) continue;
    found.insert(found.end(), one.events.begin(), one.events.end());
  }
  return found;
}

const Event* find(const std::vector<Event>& events, EventKind kind,
                  const std::string& name) {
  for (const Event& event : events) {
    if (event.kind == kind && event.name == name) return &event;
  }
  return nullptr;
}

TEST(GroupTrace, ShowsLaunchAndRunTiedByAnArrow) {
  trace::clear();
  trace::start();
  {
    auto groups = make_local_groups(2);
    testing::run_threads(2, [&](int rank) {
      trace::set_thread_rank(rank);
      std::vector<float> x(10);
      auto& group = *groups[static_cast<size_t>(rank)];
      group.barrier()->wait();
      group.all_reduce(buffer_of(x))->wait();
    });
  }
  trace::stop();
  for (const int rank : {0, 1}) {
    const auto lane = events_of(rank, "lane world");
    const Event* const run = find(lane, EventKind::kSpan, "all_reduce");
    ASSERT_NE(run, nullptr);
    EXPECT_STREQ(run->arg_key[0], "sequence");
    EXPECT_EQ(run->arg_value[0], 1);
    EXPECT_STREQ(run->arg_key[1], "bytes");
    EXPECT_EQ(run->arg_value[1], 40);
    const Event* const in = find(lane, EventKind::kFlowIn, "all_reduce");
    ASSERT_NE(in, nullptr);
    const auto caller = events_of(rank, "");
    EXPECT_NE(find(caller, EventKind::kSpan, "launch"), nullptr);
    EXPECT_NE(find(caller, EventKind::kSpan, "wait"), nullptr);
    const Event* const out = find(caller, EventKind::kFlowOut, "all_reduce");
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(out->flow, in->flow);
  }
  trace::clear();
}

TEST(GroupTrace, RecordsNothingWhileItIsOff) {
  trace::clear();
  std::vector<float> x(10);
  make_local_groups(1)[0]->all_reduce(buffer_of(x))->wait();
  for (const auto& thread : trace::snapshot()) {
    EXPECT_TRUE(thread.events.empty()) << thread.thread_name;
  }
}

}  // namespace
}  // namespace lockstep

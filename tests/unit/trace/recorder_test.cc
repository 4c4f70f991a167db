// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/thread.h"
#include "lockstep/trace/trace.h"
#include "support/support.h"

namespace lockstep::trace {
namespace {

class Trace : public ::testing::Test {
 protected:
  Trace() { clear(); }
  ~Trace() override {
    stop();
    clear();
    set_thread_rank(-1);
    set_process_rank(0);
  }

  static std::vector<Event> all_events() {
    std::vector<Event> events;
    for (const auto& thread : snapshot()) {
      events.insert(events.end(), thread.events.begin(), thread.events.end());
    }
    return events;
  }
};

TEST_F(Trace, RecordsNothingWhileOff) {
  { Span span("quiet", "test"); }
  instant("quiet", "test");
  EXPECT_TRUE(snapshot().empty());
}

TEST_F(Trace, RecordsSpansWithTheirArguments) {
  start();
  {
    Span outer("outer", "test");
    outer.arg("bytes", 42);
    outer.arg("rank", 1);
    outer.arg("too many", 2);
    LOCKSTEP_TRACE_SCOPE("inner", "test");
  }
  const auto events = all_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_STREQ(events[0].name, "inner");
  EXPECT_STREQ(events[1].name, "outer");
  EXPECT_STREQ(events[1].arg_key[0], "bytes");
  EXPECT_EQ(events[1].arg_value[0], 42);
  EXPECT_STREQ(events[1].arg_key[1], "rank");
  EXPECT_LE(events[1].start_ns, events[0].start_ns);
  EXPECT_GE(events[1].duration_ns, events[0].duration_ns);
}

TEST_F(Trace, ASpanBegunWhileOffStaysOut) {
  Span span("half", "test");
  start();
  EXPECT_TRUE(all_events().empty());
}

TEST_F(Trace, FlowsTieTwoThreads) {
  start();
  const uint64_t id = new_flow();
  EXPECT_NE(id, new_flow());
  flow_out("hand over", id);
  Thread other("other", [&] { flow_in("hand over", id); });
  other.join();
  const auto threads = snapshot();
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].events.at(0).kind, EventKind::kFlowOut);
  EXPECT_EQ(threads[1].events.at(0).kind, EventKind::kFlowIn);
  EXPECT_EQ(threads[0].events[0].flow, threads[1].events[0].flow);
  EXPECT_EQ(threads[1].thread_name, "other");
}

TEST_F(Trace, ThreadsBelongToTheirRank) {
  start();
  set_process_rank(5);
  instant("mine", "test");
  Thread other("rank-thread", [] {
    set_thread_rank(3);
    instant("theirs", "test");
  });
  other.join();
  const auto threads = snapshot();
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].rank, 5);
  EXPECT_EQ(threads[1].rank, 3);
}

TEST_F(Trace, ClearForgetsAndGoesOn) {
  start();
  instant("old", "test");
  clear();
  EXPECT_TRUE(all_events().empty());
  instant("new", "test");
  ASSERT_EQ(all_events().size(), 1U);
  EXPECT_STREQ(all_events()[0].name, "new");
}

TEST_F(Trace, EndedThreadsStayVisibleButAreBounded) {
  start(16);
  for (int i = 0; i < 400; ++i) {
    std::thread([] { instant("short life", "test"); }).join();
  }
  const size_t tracks = snapshot().size();
  EXPECT_GE(tracks, 100U);
  EXPECT_LE(tracks, 256U);
}

TEST_F(Trace, ManyThreadsRecordWhileOneLooks) {
  start(64);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      for (const auto& event : all_events()) ASSERT_STREQ(event.name, "busy");
    }
  });
  testing::run_threads(4, [](int) {
    for (int i = 0; i < 5000; ++i) Span span("busy", "test");
  });
  done = true;
  reader.join();
  uint64_t total = 0;
  for (const auto& thread : snapshot()) {
    total += thread.lost + thread.events.size();
  }
  EXPECT_EQ(total, 20000U);
}

TEST_F(Trace, InternGivesOnePointerPerName) {
  const char* first = intern("layer 1");
  EXPECT_STREQ(first, "layer 1");
  EXPECT_EQ(first, intern(std::string("layer ") + "1"));
  EXPECT_NE(first, intern("layer 2"));
}

}  // namespace
}  // namespace lockstep::trace

// SPDX-License-Identifier: Apache-2.0
#include "trace/event_ring.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::detail {
namespace {

using trace::Event;

Event numbered(int64_t number) {
  Event event;
  event.start_ns = number;
  event.duration_ns = 3 * number;
  event.arg_value[1] = 7 * number;
  return event;
}

bool is_whole(const Event& event) {
  return event.duration_ns == 3 * event.start_ns &&
         event.arg_value[1] == 7 * event.start_ns;
}

TEST(EventRing, KeepsTheNewestAndCountsTheLost) {
  EventRing ring(4);
  std::vector<Event> events;
  EXPECT_EQ(ring.copy_to(events), 0U);
  EXPECT_TRUE(events.empty());
  for (int i = 0; i < 10; ++i) ring.push(numbered(i));
  EXPECT_EQ(ring.copy_to(events), 6U);
  ASSERT_EQ(events.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(events[i].start_ns, 6 + i);
}

TEST(EventRing, HoldsAtLeastOne) {
  EventRing ring(0);
  ring.push(numbered(1));
  ring.push(numbered(2));
  std::vector<Event> events;
  EXPECT_EQ(ring.copy_to(events), 1U);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].start_ns, 2);
}

TEST(EventRing, AReaderNeverSeesATornEvent) {
  EventRing ring(8);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int64_t i = 0; !stop; ++i) ring.push(numbered(i));
  });
  int64_t newest = -1;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Event> events;
    ring.copy_to(events);
    for (size_t i = 0; i < events.size(); ++i) {
      ASSERT_TRUE(is_whole(events[i]));
      if (i > 0) {
        ASSERT_EQ(events[i].start_ns, events[i - 1].start_ns + 1);
      }
    }
    if (!events.empty()) {
      ASSERT_GE(events.back().start_ns, newest);
      newest = events.back().start_ns;
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/poller.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  Fd read_end;
  Fd write_end;
};

TEST(Poller, TellsWhatIsReady) {
  Poller poller;
  Pipe pipe;
  poller.add(pipe.read_end.get(), Poller::kRead, 7);
  EXPECT_TRUE(poller.wait(Deadline::in(0ms)).empty());
  ASSERT_EQ(::write(pipe.write_end.get(), "x", 1), 1);
  const auto& events = poller.wait(Deadline::in(5s));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].token, 7U);
  EXPECT_TRUE(events[0].readable);
}

TEST(Poller, ChangesAndRemovesItsInterest) {
  Poller poller;
  Pipe pipe;
  poller.add(pipe.write_end.get(), 0, 1);
  EXPECT_TRUE(poller.wait(Deadline::in(0ms)).empty());
  poller.change(pipe.write_end.get(), Poller::kWrite, 2);
  ASSERT_EQ(poller.wait(Deadline::in(5s)).size(), 1U);
  EXPECT_EQ(poller.wait(Deadline::in(5s))[0].token, 2U);
  EXPECT_TRUE(poller.wait(Deadline::in(5s))[0].writable);
  poller.remove(pipe.write_end.get());
  EXPECT_TRUE(poller.wait(Deadline::in(0ms)).empty());
}

TEST(Poller, AClosedPeerIsReadable) {
  Poller poller;
  Pipe pipe;
  poller.add(pipe.read_end.get(), Poller::kRead, 1);
  pipe.write_end.reset();
  ASSERT_EQ(poller.wait(Deadline::in(5s)).size(), 1U);
}

TEST(Poller, WakesFromAnotherThreadWithoutAnEvent) {
  Poller poller;
  std::thread waker([&] { poller.wake(); });
  EXPECT_TRUE(poller.wait(Deadline::in(30s)).empty());
  waker.join();
  const auto start = Deadline::Clock::now();
  EXPECT_TRUE(poller.wait(Deadline::in(20ms)).empty());  // only once
  EXPECT_GE(Deadline::Clock::now() - start, 20ms);
}

TEST(Poller, RefusesABadDescriptor) {
  Poller poller;
  EXPECT_THROW(poller.add(-1, Poller::kRead, 1), SystemError);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Fd, ClosesWhenItEnds) {
  int number = -1;
  {
    Fd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, MovesItsDescriptor) {
  Fd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = first.get();
  Fd second(std::move(first));
  EXPECT_EQ(second.get(), number);
  Fd third;
  EXPECT_FALSE(third);
  third = std::move(second);
  EXPECT_TRUE(third);
  const int released = third.release();
  EXPECT_TRUE(is_open(released));
  ::close(released);
}

TEST(Fd, NonBlockingIsCloseOnExecToo) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd read_end(ends[0]);
  const Fd write_end(ends[1]);
  set_nonblocking(read_end.get());
  EXPECT_NE(::fcntl(read_end.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(read_end.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_THROW(set_nonblocking(-1), SystemError);
}

TEST(EventFd, IsReadableFromSignalToDrain) {
  EventFd event;
  const auto readable = [&] {
    pollfd entry{event.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  EXPECT_FALSE(readable());
  event.signal();
  event.signal();
  EXPECT_TRUE(readable());
  event.drain();
  EXPECT_FALSE(readable());
  event.drain();  // nothing there: returns
}

}  // namespace
}  // namespace lockstep

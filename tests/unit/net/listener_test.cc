// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

SocketAddress loopback(uint16_t port = 0) {
  return resolve({"127.0.0.1", port}, Deadline::in(1s)).at(0);
}

TEST(Listener, PortZeroPicksOneAndTellsIt) {
  Listener listener(loopback());
  EXPECT_NE(listener.address().port(), 0);
  EXPECT_TRUE(listener.address().is_loopback());
}

TEST(Listener, NamesThePortInUse) {
  Listener first(loopback());
  try {
    Listener second(first.address());
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), EADDRINUSE);
    EXPECT_THAT(error.what(),
                HasSubstr("port " + std::to_string(first.address().port())));
  }
}

TEST(Listener, AcceptsWithADeadline) {
  Listener listener(loopback());
  EXPECT_FALSE(listener.accept_now());
  EXPECT_THROW(listener.accept(Deadline::in(10ms)), TimeoutError);
  Socket client = Socket::connect({listener.address()}, Deadline::in(5s));
  Socket server = listener.accept(Deadline::in(5s));
  EXPECT_EQ(server.peer().port(), client.local().port());
}

TEST(Listener, AdoptsWhatListensAlready) {
  Listener first(loopback());
  const uint16_t port = first.address().port();
  Listener second = Listener::adopt(Fd(::dup(first.fd())));
  EXPECT_EQ(second.address().port(), port);
  Socket client = Socket::connect({second.address()}, Deadline::in(5s));
  second.accept(Deadline::in(5s));
}

TEST(Listener, RefusesToAdoptWhatDoesNotListen) {
  EXPECT_THROW(Listener::adopt(Fd(::socket(AF_INET, SOCK_STREAM, 0))),
               UsageError);
  EXPECT_THROW(Listener::adopt(Fd(-1)), UsageError);
}

TEST(Listener, KnowsTheSystemsBacklog) { EXPECT_GE(system_backlog(), 1); }

}  // namespace
}  // namespace lockstep

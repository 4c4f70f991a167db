// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/socket.h"

#include <fcntl.h>
#include <poll.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/net/listener.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class SocketTest : public ::testing::Test {
 protected:
  static Deadline soon() { return Deadline::in(10s); }

  Listener listener_{resolve({"127.0.0.1", 0}, soon()).at(0)};
  Socket client_ = Socket::connect({listener_.address()}, soon());
  Socket server_ = listener_.accept(soon());
};

TEST_F(SocketTest, CarriesBytesBothWays) {
  client_.send_all("ping", soon());
  ByteVector bytes(4);
  server_.recv_exactly(bytes, soon());
  EXPECT_EQ(to_string(bytes), "ping");
  server_.send_all("pong", soon());
  client_.recv_exactly(bytes, soon());
  EXPECT_EQ(to_string(bytes), "pong");
}

TEST_F(SocketTest, CarriesMoreThanTheKernelHolds) {
  const ByteVector sent(32 << 20, std::byte{7});
  std::thread sender([&] { client_.send_all(sent, soon()); });
  ByteVector got(sent.size());
  server_.recv_exactly(got, soon());
  sender.join();
  EXPECT_TRUE(got == sent);
}

TEST_F(SocketTest, ReceivingKeepsItsDeadline) {
  ByteVector bytes(4);
  client_.send_all("ab", soon());
  try {
    server_.recv_exactly(bytes, Deadline::in(20ms));
    FAIL();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 bytes missing"));
  }
}

TEST_F(SocketTest, SendingKeepsItsDeadline) {
  const ByteVector much(64 << 20);
  EXPECT_THROW(client_.send_all(much, Deadline::in(50ms)), TimeoutError);
}

TEST_F(SocketTest, AClosedPeerIsAPeerError) {
  server_.close();
  ByteVector bytes(1);
  EXPECT_THROW(client_.recv_exactly(bytes, soon()), PeerError);
  const ByteVector much(64 << 20);
  EXPECT_THROW(client_.send_all(much, soon()), PeerError);
}

TEST_F(SocketTest, SomeNeverWaits) {
  ByteVector bytes(8);
  EXPECT_FALSE(server_.recv_some(bytes));
  client_.send_all("abc", soon());
  ASSERT_TRUE(server_.wait_for(POLLIN, soon()));
  EXPECT_EQ(server_.recv_some(bytes), 3U);
  client_.close();
  ASSERT_TRUE(server_.wait_for(POLLIN, soon()));
  EXPECT_EQ(server_.recv_some(bytes), 0U);
}

// Longer than one slice of waiting in recv(2), and shorter.
TEST_F(SocketTest, ReceivesByADeadline) {
  ByteVector bytes(8);
  for (auto time : {20ms, 1200ms}) {
    const auto start = Deadline::Clock::now();
    EXPECT_FALSE(client_.recv_by(bytes, Deadline::in(time)));
    EXPECT_GE(Deadline::Clock::now() - start, time);
    EXPECT_LT(Deadline::Clock::now() - start, time + 5s);
  }
  for (auto time : {500ms, 30000ms}) {
    std::thread sender([&] { server_.send_all("abc", soon()); });
    EXPECT_EQ(client_.recv_by(bytes, Deadline::in(time)), 3U);
    sender.join();
  }
  std::thread closer([&] { client_.shutdown(); });
  EXPECT_EQ(client_.recv_by(bytes, Deadline::in(30s)), 0U);
  closer.join();
}

TEST_F(SocketTest, IsCloseOnExec) {
  EXPECT_NE(::fcntl(client_.fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(server_.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(SocketTest, TriesEveryAddress) {
  // Nobody listens on the first one.
  Listener gone(resolve({"127.0.0.1", 0}, soon()).at(0));
  const auto dead = gone.address();
  gone = Listener(resolve({"127.0.0.1", 0}, soon()).at(0));
  EXPECT_NO_THROW(Socket::connect({dead, listener_.address()}, soon()));
  try {
    Socket::connect({dead}, soon());
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::to_string(dead.port())));
    EXPECT_THAT(error.what(), HasSubstr("ECONNREFUSED"));
  }
  EXPECT_THROW(Socket::connect({}, soon()), UsageError);
}

}  // namespace
}  // namespace lockstep

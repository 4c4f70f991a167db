// SPDX-License-Identifier: Apache-2.0
#include "lockstep/net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "support/no_host.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

SocketAddress first_of(const std::string& host, uint16_t port = 80) {
  return resolve({host, port}, Deadline::in(10s)).at(0);
}

TEST(Address, ParsesNamesAndNumbers) {
  EXPECT_EQ(Address::parse("node7:29500").host, "node7");
  EXPECT_EQ(Address::parse("node7:29500").port, 29500);
  EXPECT_EQ(Address::parse("[::1]:80").host, "::1");
  EXPECT_EQ(to_text(Address::parse("[::1]:80")), "[::1]:80");
  EXPECT_EQ(to_text(Address::parse("10.0.0.1:0")), "10.0.0.1:0");
}

TEST(Address, SaysWhatIsWrong) {
  const auto complaint = [](const std::string& text) -> std::string {
    try {
      Address::parse(text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(complaint("node7"), HasSubstr("port is missing"));
  EXPECT_THAT(complaint(":80"), HasSubstr("host is missing"));
  EXPECT_THAT(complaint("[]:80"), HasSubstr("host is missing"));
  EXPECT_THAT(complaint("::1:80"), HasSubstr("brackets"));
  for (const char* bad : {"h:", "h:x", "h:80x", "h:-1", "h:65536"}) {
    EXPECT_THAT(complaint(bad), HasSubstr("port is not a number")) << bad;
  }
}

TEST(Resolve, KnowsLoopback) {
  EXPECT_TRUE(first_of("127.0.0.1").is_loopback());
  EXPECT_TRUE(first_of("127.8.9.10").is_loopback());
  EXPECT_TRUE(first_of("::1").is_loopback());
  EXPECT_TRUE(first_of("::ffff:127.0.0.1").is_loopback());
  EXPECT_TRUE(first_of("localhost").is_loopback());
  EXPECT_FALSE(first_of("0.0.0.0").is_loopback());
  EXPECT_FALSE(first_of("::").is_loopback());
  EXPECT_FALSE(first_of("10.0.0.1").is_loopback());
}

TEST(Resolve, KeepsThePort) {
  EXPECT_EQ(first_of("127.0.0.1", 1234).port(), 1234);
  EXPECT_EQ(first_of("::1", 1234).port(), 1234);
  EXPECT_EQ(to_text(first_of("::1", 1234)), "[::1]:1234");
}

TEST(Resolve, NamesTheHostThatDoesNotResolve) {
  try {
    resolve({testing::kNoHost, 1}, Deadline::in(30s));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(testing::kNoHost));
  }
}

TEST(Resolve, KeepsItsDeadline) {
  const int threads = testing::running_threads();
  const auto start = Deadline::Clock::now();
  EXPECT_THROW(resolve({testing::kNoHost, 1}, Deadline::in(0ms)), Error);
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
  // The look-up that was given up ends, and a later one joins it.
  EXPECT_TRUE(testing::eventually(
      [&] { return testing::running_threads() <= threads; }));
  first_of("localhost");
}

}  // namespace
}  // namespace lockstep

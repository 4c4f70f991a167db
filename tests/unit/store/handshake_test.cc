// SPDX-License-Identifier: Apache-2.0
#include "store/handshake.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::detail::handshake {
namespace {

using ::testing::HasSubstr;

TEST(Handshake, BothSidesAgreeOnTheSameSecret) {
  for (const std::string secret : {"", "secret", "a much longer one \n"}) {
    const Server server(secret);
    Client client(secret);
    const auto greeting = server.greeting();
    EXPECT_EQ(greeting.size(), kGreetingBytes);
    const auto hello = client.hello(greeting);
    EXPECT_EQ(hello.size(), kHelloBytes);
    const auto result = server.judge(hello);
    EXPECT_EQ(result.verdict, Verdict::kAccepted);
    EXPECT_EQ(result.reply.size(), kVerdictBytes);
    EXPECT_NO_THROW(client.check(result.reply));
  }
}

TEST(Handshake, AWrongSecretIsRefused) {
  const std::string right = "right";
  for (const std::string wrong : {"", "Right", "right ", "wrong"}) {
    const Server server(right);
    Client client(wrong);
    const auto result = server.judge(client.hello(server.greeting()));
    EXPECT_EQ(result.verdict, Verdict::kRefused) << wrong;
    try {
      client.check(result.reply);
      FAIL() << wrong;
    } catch (const Refused& error) {
      EXPECT_THAT(error.what(), HasSubstr("LOCKSTEP_SECRET"));
    }
  }
}

TEST(Handshake, ARecordedHelloIsWorthless) {
  const std::string secret = "secret";
  const Server first(secret);
  Client client(secret);
  const auto recorded = client.hello(first.greeting());
  const Server second(secret);
  EXPECT_EQ(second.judge(recorded).verdict, Verdict::kRefused);
}

TEST(Handshake, AnImpostorWhoSaysYesIsFoundOut) {
  const std::string secret = "secret";
  const std::string other = "other";
  const Server impostor(other);
  Client client(secret);
  auto reply = impostor.judge(client.hello(impostor.greeting())).reply;
  reply[0] = static_cast<std::byte>(Verdict::kAccepted);
  EXPECT_THROW(client.check(reply), Refused);
}

// The client's own proof sent back to it must not count as the server's.
TEST(Handshake, AReflectedProofIsFoundOut) {
  const std::string secret = "secret";
  const Server server(secret);
  Client client(secret);
  const auto hello = client.hello(server.greeting());
  ByteWriter verdict;
  verdict.u8(static_cast<uint8_t>(Verdict::kAccepted))
      .raw(ConstBytes(hello).from(kHelloBytes - kProofBytes));
  EXPECT_THROW(client.check(verdict.bytes()), Refused);
}

TEST(Handshake, EveryFlippedBitOfTheHelloIsNoticed) {
  const std::string secret = "secret";
  const Server server(secret);
  Client client(secret);
  const auto hello = client.hello(server.greeting());
  for (size_t i = 0; i < hello.size(); ++i) {
    auto bent = hello;
    bent[i] ^= std::byte{1};
    const auto verdict = server.judge(bent).verdict;
    EXPECT_NE(verdict, Verdict::kAccepted) << i;
    if (i < 8) {
      EXPECT_EQ(verdict, Verdict::kNoClient) << i;
    } else if (i < 12) {
      EXPECT_EQ(verdict, Verdict::kOtherVersion) << i;
    }
  }
}

TEST(Handshake, ForeignAndOtherVersionServersAreTold) {
  const std::string secret;
  const Server server(secret);
  auto greeting = server.greeting();
  greeting[11] = std::byte{9};
  try {
    Client(secret).hello(greeting);
    FAIL();
  } catch (const Refused& error) {
    EXPECT_THAT(error.what(), HasSubstr("version 9"));
  }
  EXPECT_THROW(Client(secret).hello(ByteVector(kGreetingBytes)), Refused);
}

TEST(Handshake, SecretsAreLongAndNeverTheSame) {
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) secrets.insert(make_secret());
  EXPECT_EQ(secrets.size(), 100U);
  EXPECT_EQ(secrets.begin()->size(), 64U);
}

}  // namespace
}  // namespace lockstep::detail::handshake

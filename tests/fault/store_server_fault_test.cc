// SPDX-License-Identifier: Apache-2.0
// A server that is killed or stopped, and strangers at its port.
#include <csignal>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/net/socket.h"
#include "lockstep/store/rendezvous.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "store/codec.h"
#include "store/handshake.h"
#include "support/child.h"
#include "support/sanitizers.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using ::testing::HasSubstr;

// The address sanitizer keeps what is freed for a while.
constexpr long kMostGrowthKib = (testing::kAddressSanitizer ? 400 : 32) * 1024L;

const std::string kSecret = "the job's secret";

// A server in a process of its own.
class ServerProcess {
 public:
  ServerProcess()
      : child_({LOCKSTEP_STORE_WORKER, "serve", kSecret}),
        port_(static_cast<uint16_t>(
            std::stoi(child_.read_line(Deadline::in(20s)).value()))) {}

  uint16_t port() const { return port_; }
  Child& child() { return child_; }
  std::unique_ptr<TcpStore> connect() const {
    return std::make_unique<TcpStore>("127.0.0.1", port_, kSecret);
  }

  // Resident memory in KiB.
  long memory() const {
    std::ifstream status("/proc/" + std::to_string(child_.pid()) + "/status");
    std::string word;
    long size = 0;
    while (status >> word && word != "VmRSS:") {
    }
    status >> size;
    return size;
  }

 private:
  Child child_;
  uint16_t port_;
};

Socket stranger(uint16_t port) {
  const auto deadline = Deadline::in(20s);
  return Socket::connect(resolve({"127.0.0.1", port}, deadline), deadline);
}

// A connection that has proved the secret and speaks for itself from there.
Socket authenticated(uint16_t port) {
  const auto deadline = Deadline::in(20s);
  Socket socket = stranger(port);
  ByteVector greeting(detail::handshake::kGreetingBytes);
  socket.recv_exactly(greeting, deadline);
  detail::handshake::Client client(kSecret);
  socket.send_all(client.hello(greeting), deadline);
  ByteVector verdict(detail::handshake::kVerdictBytes);
  socket.recv_exactly(verdict, deadline);
  client.check(verdict);
  return socket;
}

// Whether the server ends the connection in time.
bool is_closed_within(Socket& socket, Deadline::Duration time) {
  const auto deadline = Deadline::in(time);
  ByteVector bytes(4096);
  try {
    for (;;) socket.recv_exactly({bytes.data(), 1}, deadline);
  } catch (const PeerError&) {
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

TEST(StoreServerFault, AKilledServerIsNoticedByAllAtOnce) {
  ServerProcess server;
  auto store = server.connect();
  store->set("k", "v");
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    server.child().signal(SIGKILL);
  });
  const auto start = Deadline::Clock::now();
  EXPECT_THROW(store->get("never", Deadline::in(60s)), PeerError);
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
  EXPECT_THROW(store->set("k", "v"), PeerError);
  killer.join();
}

TEST(StoreServerFault, AStoppedServerDoesNotKeepAMeetingBeyondItsDeadline) {
  ServerProcess server;
  auto store = server.connect();
  server.child().stop();
  const auto start = Deadline::Clock::now();
  EXPECT_THROW(meet(*store, 0, 2, Deadline::in(100ms)), TimeoutError);
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
  server.child().signal(SIGCONT);
}

TEST(StoreServerFault, AStoppedServerEndsCallsAtTheirDeadline) {
  ServerProcess server;
  auto store = server.connect();
  store->set("k", "v");
  server.child().stop();
  const auto start = Deadline::Clock::now();
  try {
    store->get("k", Deadline::in(100ms));
    ADD_FAILURE();
  } catch (const TimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did not answer"));
  }
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
  server.child().signal(SIGCONT);
  EXPECT_EQ(to_string(store->get("k", Deadline::in(20s))), "v");
}

TEST(StoreServerFault, SilentAndSlowStrangersAreClosed) {
  TcpStoreServerOptions options;
  options.handshake_time = 200ms;
  TcpStoreServer server("127.0.0.1", 0, kSecret, options);
  testing::LogCapture log;
  Socket silent = stranger(server.port());
  Socket half = stranger(server.port());
  half.send_all("lockstep\0\0\0\1", Deadline::in(1s));
  EXPECT_TRUE(is_closed_within(silent, 10s));
  EXPECT_TRUE(is_closed_within(half, 10s));
  EXPECT_TRUE(testing::eventually(
      [&] { return log.count("did not prove the secret in time") >= 1; }));
}

TEST(StoreServerFault, TheDefaultPatienceIsFiveSeconds) {
  EXPECT_EQ(TcpStoreServerOptions{}.handshake_time, 5s);
}

TEST(StoreServerFault, StrangersAreBoundedAndTheOldestGoesFirst) {
  TcpStoreServerOptions options;
  options.most_strangers = 8;
  options.handshake_time = 60s;
  TcpStoreServer server("127.0.0.1", 0, kSecret, options);
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(stranger(server.port()));
  EXPECT_TRUE(is_closed_within(strangers[0], 10s));
  EXPECT_TRUE(is_closed_within(strangers[11], 10s));
  EXPECT_TRUE(
      testing::eventually([&] { return server.load().strangers == 8; }));
  TcpStore store("127.0.0.1", server.port(), kSecret);  // still gets in
  store.set("k", "v");
}

TEST(StoreServerFault, GarbageBeforeTheSecretIsClosedAtOnce) {
  ServerProcess server;
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n"
                    "User-Agent: a port scan that talks a lot\r\n\r\n"),
        std::string(200, '\0'), std::string(200, '\xff')}) {
    Socket socket = stranger(server.port());
    socket.send_all(garbage, Deadline::in(5s));
    EXPECT_TRUE(is_closed_within(socket, 4s));
  }
  server.connect()->set("k", "v");
}

TEST(StoreServerFault, GarbageAfterTheSecretCostsThatConnectionOnly) {
  ServerProcess server;
  auto good = server.connect();
  good->set("k", "v");
  const std::vector<ByteVector> garbage = {
      ByteWriter().u32(0xffffffff).take(),       // a huge length
      ByteWriter().u32(0).take(),                // an empty message
      ByteWriter().u32(8).u64(0).take(),         // a cut cancellation
      ByteWriter().u32(9).u64(1).u8(99).take(),  // an unknown op
      ByteWriter().u32(21).u64(1).u8(6).u64(0).u32(~0U).take(),  // many keys
      ByteWriter().counted(std::string(1000, '\xee')).take(),
  };
  for (const auto& bytes : garbage) {
    Socket socket = authenticated(server.port());
    socket.send_all(bytes, Deadline::in(5s));
    EXPECT_TRUE(is_closed_within(socket, 4s));
  }
  EXPECT_EQ(to_string(good->get("k")), "v");
}

TEST(StoreServerFault, MessagesSplitAnywhereParse) {
  TcpStoreServer server("127.0.0.1", 0, kSecret);
  Socket socket = authenticated(server.port());
  StoreRequest request{StoreOp::kAdd, {"n"}, {}, 1};
  ByteWriter writer;
  writer.u32(0).u64(7);
  detail::codec::encode(request, writer);
  writer.patch_u32(0, static_cast<uint32_t>(writer.size() - 4));
  const ByteVector message = writer.take();
  for (size_t cut = 1; cut < message.size(); ++cut) {
    socket.send_all(ConstBytes(message).first(cut), Deadline::in(5s));
    std::this_thread::yield();
    socket.send_all(ConstBytes(message).from(cut), Deadline::in(5s));
    ByteVector answer(4 + 8 + 1 + 8 + 4);
    socket.recv_exactly(answer, Deadline::in(5s));
    ByteReader reader(answer);
    EXPECT_EQ(reader.u32(), answer.size() - 4);
    EXPECT_EQ(reader.u64(), 7U);
    EXPECT_EQ(reader.u8(), 0);
    EXPECT_EQ(reader.u64(), cut);
  }
}

// A client that sends without reading its answers must not fill the server.
TEST(StoreServerFault, AClientThatDoesNotReadIsNotReadFrom) {
  ServerProcess server;
  auto good = server.connect();
  good->set("big", ByteVector(1 << 20));
  const long before = server.memory();
  Socket rude = authenticated(server.port());
  ByteWriter writer;
  writer.u32(0).u64(1);
  detail::codec::encode(StoreRequest{StoreOp::kGet, {"big"}, {}, 0}, writer);
  writer.patch_u32(0, static_cast<uint32_t>(writer.size() - 4));
  for (int i = 0; i < 5000; ++i) {
    if (!rude.send_some(writer.bytes())) break;
  }
  for (int i = 0; i < 100; ++i) good->add("n", 1);
  EXPECT_LT(server.memory() - before, 2 * kMostGrowthKib);
}

// Requests that were left because their client took no answers are not
// forgotten when it takes them.
TEST(StoreServerFault, ManyLargeAnswersReadSlowlyAllCome) {
  TcpStoreServer server("127.0.0.1", 0, kSecret);
  const ByteVector big(300 << 10);
  TcpStore("127.0.0.1", server.port(), kSecret).set("big", big);
  Socket slow = authenticated(server.port());
  constexpr int kRequests = 40;
  ByteWriter writer;
  for (uint64_t id = 1; id <= kRequests; ++id) {
    ByteWriter body;
    body.u64(id);
    detail::codec::encode(StoreRequest{StoreOp::kGet, {"big"}, {}, 0}, body);
    writer.counted(body.bytes());
  }
  slow.send_all(writer.bytes(), Deadline::in(20s));
  ByteVector answer(4 + 8 + 1 + 8 + 4 + 4 + big.size());
  for (uint64_t id = 1; id <= kRequests; ++id) {
    std::this_thread::yield();
    slow.recv_exactly(answer, Deadline::in(20s));
    EXPECT_EQ(ByteReader(ConstBytes(answer).from(4)).u64(), id);
  }
}

TEST(StoreServerFault, TenThousandGarbageConnectionsCostNobodyElse) {
  testing::raise_descriptor_limit();
  ServerProcess server;
  auto good = server.connect();
  good->set("k", "v");
  std::atomic<bool> done{false};
  std::chrono::duration<double> slowest{0};
  int calls = 0;
  std::thread user([&] {
    while (!done) {
      const auto start = Deadline::Clock::now();
      good->set("k", std::to_string(calls));
      ASSERT_EQ(to_string(good->get("k")), std::to_string(calls));
      slowest = std::max<std::chrono::duration<double>>(
          slowest, Deadline::Clock::now() - start);
      ++calls;
    }
  });
  const long before = server.memory();
  long highest = before;
  std::mt19937 random(1);
  std::vector<Socket> kept;  // some stay open, silent or half way
  for (int i = 0; i < 10000; ++i) {
    Socket socket = stranger(server.port());
    try {
      switch (i % 4) {
        case 0: {
          std::string noise(random() % 4096, '\0');
          for (char& c : noise) c = static_cast<char>(random());
          socket.send_some(noise);
          break;
        }
        case 1:
          socket.send_some("GET / HTTP/1.0\r\n\r\n");
          break;
        case 2:
          socket.send_some("lockstep");
          break;
        default:
          break;
      }
    } catch (const PeerError&) {
      // closed on us already
    }
    if (i % 2 == 0) kept.push_back(std::move(socket));
    if (kept.size() > 2000) kept.erase(kept.begin(), kept.begin() + 1000);
    if (i % 100 == 0) highest = std::max(highest, server.memory());
  }
  highest = std::max(highest, server.memory());
  auto newcomer = server.connect();
  EXPECT_TRUE(newcomer->check({"k"}));
  done = true;
  user.join();
  std::cout << calls << " calls beside them, the slowest "
            << slowest.count() * 1e3 << " ms; the server grew by "
            << (highest - before) << " KiB\n";
  EXPECT_LT(highest - before, kMostGrowthKib);
  EXPECT_LT(slowest.count(), 2.0);
  EXPECT_GT(calls, 10);
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/tcp_store.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/net/listener.h"
#include "lockstep/store/rendezvous.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/message_of.h"
#include "support/no_host.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_threads;

std::unique_ptr<TcpStore> connect(uint16_t port, const std::string& secret,
                                  Deadline::Duration within = 10s) {
  TcpStoreOptions options;
  options.connect_timeout = within;
  return std::make_unique<TcpStore>("127.0.0.1", port, secret, options);
}

Listener free_port() {
  return Listener(resolve({"127.0.0.1", 0}, Deadline::in(1s)).at(0));
}

TEST(TcpStoreServer, BeyondLoopbackItNeedsASecret) {
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto text =
        message_of<UsageError>([&] { TcpStoreServer server(host, 0, ""); });
    EXPECT_THAT(text, HasSubstr("needs a secret"));
    EXPECT_THAT(text, HasSubstr("LOCKSTEP_SECRET"));
  }
  TcpStoreServer open("0.0.0.0", 0, "secret");
  connect(open.port(), "secret")->set("k", "v");
  TcpStoreServer loopback("127.0.0.1", 0, "");
  connect(loopback.port(), "")->set("k", "v");
}

TEST(TcpStoreServer, ListensOnItsAddressOnly) {
  TcpStoreServer server("127.0.0.2", 0, "");
  TcpStore there("127.0.0.2", server.port(), "");
  there.set("k", "v");
  TcpStoreOptions options;
  options.connect_timeout = 50ms;
  EXPECT_THROW(TcpStore("127.0.0.1", server.port(), "", options), TimeoutError);
}

TEST(TcpStoreServer, NamesThePortInUse) {
  TcpStoreServer first("127.0.0.1", 0, "");
  const auto text = message_of<SystemError>(
      [&] { TcpStoreServer second("127.0.0.1", first.port(), ""); });
  EXPECT_THAT(text, HasSubstr("port " + std::to_string(first.port())));
  EXPECT_THAT(text, HasSubstr("in use"));
}

TEST(TcpStoreServer, NamesAHostThatDoesNotResolve) {
  EXPECT_THAT(message_of<Error>(
                  [] { TcpStoreServer server(testing::kNoHost, 0, "s"); }),
              HasSubstr(testing::kNoHost));
}

TEST(TcpStoreServer, AdoptsAListeningDescriptor) {
  Listener listener = free_port();
  TcpStoreServer server(Fd(::dup(listener.fd())), "secret");
  EXPECT_EQ(server.port(), listener.address().port());
  connect(server.port(), "secret")->set("k", "v");
}

TEST(TcpStoreServer, WarnsWhenTheBacklogIsSmallerThanTheWorld) {
  testing::LogCapture log;
  TcpStoreServerOptions options;
  options.world_size = system_backlog() + 1;
  TcpStoreServer server("127.0.0.1", 0, "", options);
  EXPECT_EQ(log.count("net.core.somaxconn"), 1);
  options.world_size = 2;
  TcpStoreServer small("127.0.0.1", 0, "", options);
  EXPECT_EQ(log.count("net.core.somaxconn"), 1);
}

TEST(TcpStoreServer, LeavesNoThreadAndNoDescriptor) {
  const int descriptors = testing::open_descriptors();
  const int threads = testing::running_threads();
  for (int i = 0; i < 10; ++i) {
    TcpStoreServer server("127.0.0.1", 0, "s");
    auto one = connect(server.port(), "s");
    auto two = connect(server.port(), "s");
    one->set("k", "v");
    EXPECT_EQ(to_string(two->get("k")), "v");
  }
  EXPECT_EQ(testing::open_descriptors(), descriptors);
  // A joined thread stays in the system's list for a moment.
  EXPECT_TRUE(
      eventually([&] { return testing::running_threads() == threads; }));
}

TEST(TcpStore, AWrongSecretIsToldAtOnceAndLoggedOnce) {
  testing::LogCapture log;
  TcpStoreServer server("127.0.0.1", 0, "right");
  const auto start = Deadline::Clock::now();
  for (int i = 0; i < 5; ++i) {
    const auto text = message_of<PeerError>(
        [&] { connect(server.port(), i == 0 ? "" : "wrong", 60s); });
    EXPECT_THAT(text, HasSubstr("refused our secret"));
    EXPECT_THAT(text, HasSubstr(std::to_string(server.port())));
  }
  EXPECT_LT(Deadline::Clock::now() - start, 10s);
  // One line with the address; the others within the second are held back.
  EXPECT_TRUE(eventually([&] { return log.count("wrong secret") == 1; }));
  EXPECT_EQ(log.count("127.0.0.1"), 1);
}

TEST(TcpStore, AForeignServiceIsToldAtOnce) {
  Listener listener = free_port();
  std::thread service([&] {
    Socket socket = listener.accept(Deadline::in(10s));
    socket.send_all("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
                    Deadline::in(10s));
    ByteVector rest(1);
    try {
      socket.recv_exactly(rest, Deadline::in(10s));
    } catch (const Error&) {
    }
  });
  const auto text = message_of<PeerError>(
      [&] { connect(listener.address().port(), "s", 60s); });
  EXPECT_THAT(text, HasSubstr("no lockstep store"));
  service.join();
}

TEST(TcpStore, WaitsForAServerThatStartsLater) {
  Listener placeholder = free_port();
  const uint16_t port = placeholder.address().port();
  placeholder = free_port();  // gives the port free again
  std::unique_ptr<TcpStoreServer> server;
  std::thread starter([&] {
    std::this_thread::sleep_for(100ms);
    server = std::make_unique<TcpStoreServer>("127.0.0.1", port, "s");
  });
  connect(port, "s")->set("k", "v");
  starter.join();
}

TEST(TcpStore, SaysHostPortTriesAndReasonWhenThereIsNoServer) {
  Listener placeholder = free_port();
  const uint16_t port = placeholder.address().port();
  placeholder = free_port();
  const auto text =
      message_of<TimeoutError>([&] { connect(port, "s", 300ms); });
  EXPECT_THAT(text, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(text, HasSubstr("tries"));
  EXPECT_THAT(text, HasSubstr("ECONNREFUSED"));
}

TEST(TcpStore, AHostThatDoesNotResolveIsRetriedAndNamed) {
  TcpStoreOptions options;
  options.connect_timeout = 200ms;
  const auto text = message_of<TimeoutError>(
      [&] { TcpStore store(testing::kNoHost, 1, "", options); });
  EXPECT_THAT(text, HasSubstr(testing::kNoHost));
}

TEST(TcpStore, AfterTheServerIsGoneEveryCallFailsPromptly) {
  auto server = std::make_unique<TcpStoreServer>("127.0.0.1", 0, "s");
  auto store = connect(server->port(), "s");
  std::atomic<int> waiting{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      ++waiting;
      EXPECT_THROW(store->get("never", Deadline::in(60s)), PeerError);
      ++failed;
    });
  }
  ASSERT_TRUE(eventually([&] { return server->load().waiting == 4; }));
  const auto start = Deadline::Clock::now();
  server.reset();
  for (auto& waiter : waiters) waiter.join();
  EXPECT_EQ(failed, 4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(store->set("k", "v"), PeerError);
    EXPECT_THROW(store->get("k", Deadline::in(60s)), PeerError);
  }
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
}

TEST(TcpStore, AWaitThatTimesOutIsTakenBackAtTheServer) {
  TcpStoreServer server("127.0.0.1", 0, "s");
  auto store = connect(server.port(), "s");
  EXPECT_THROW(store->wait({"a", "b"}, Deadline::in(20ms)), TimeoutError);
  EXPECT_TRUE(eventually([&] { return server.load().waiting == 0; }));
}

TEST(TcpStore, AClientThatLeavesLeavesNoWaitBehind) {
  TcpStoreServer server("127.0.0.1", 0, "s");
  auto stays = connect(server.port(), "s");
  {
    auto leaves = connect(server.port(), "s");
    EXPECT_THROW(leaves->pop("q", Deadline::in(1ms)), TimeoutError);
  }
  EXPECT_TRUE(eventually([&] {
    const auto load = server.load();
    return load.waiting == 0 && load.clients == 1;
  }));
  stays->push("q", "v");
  EXPECT_EQ(stays->length("q"), 1);
}

TEST(TcpStore, SixtyFourClientsAddAThousandTimesEach) {
  TcpStoreServer server("127.0.0.1", 0, "s");
  run_threads(64, [&](int) {
    auto store = connect(server.port(), "s", 60s);
    for (int i = 0; i < 1000; ++i) store->add("n", 1);
  });
  EXPECT_EQ(connect(server.port(), "s")->add("n", 0), 64000);
}

TEST(TcpStore, SixtyFourThreadsShareOneConnection) {
  TcpStoreServer server("127.0.0.1", 0, "s");
  auto store = connect(server.port(), "s");
  run_threads(64, [&](int thread) {
    const std::string own = "own" + std::to_string(thread);
    for (int i = 1; i <= 100; ++i) {
      EXPECT_EQ(store->add(own, 1), i);
      store->add("n", 1);
    }
  });
  EXPECT_EQ(store->add("n", 0), 6400);
}

TEST(TcpStore, AThousandClientsConnectSetAndWait) {
  testing::raise_descriptor_limit();
  constexpr int kClients = 1000;
  constexpr int kThreads = 50;
  TcpStoreServer server("127.0.0.1", 0, "s");
  std::vector<std::unique_ptr<TcpStore>> clients(kClients);
  run_threads(kThreads, [&](int thread) {
    for (int i = thread; i < kClients; i += kThreads) {
      clients[i] = connect(server.port(), "s", 60s);
      clients[i]->set("joined/" + std::to_string(i), "");
    }
    for (int i = thread; i < kClients; i += kThreads) {
      std::vector<std::string> all;
      for (int k = 0; k < kClients; ++k) {
        all.push_back("joined/" + std::to_string(k));
      }
      clients[i]->wait(all, Deadline::in(60s));
    }
  });
  EXPECT_EQ(clients[0]->num_keys(), kClients);
  EXPECT_EQ(server.load().clients, static_cast<size_t>(kClients));
}

// Large answers and large requests at once, on one connection: neither side
// may wait for the other to read first.
TEST(TcpStore, LargeMessagesBothWaysDoNotDeadlock) {
  TcpStoreServer server("127.0.0.1", 0, "s");
  auto store = connect(server.port(), "s");
  const ByteVector big(4 << 20, std::byte{5});
  store->set("big", big);
  run_threads(6, [&](int thread) {
    for (int i = 0; i < 10; ++i) {
      if (thread % 2 == 0) {
        EXPECT_EQ(store->get("big", Deadline::in(60s)).size(), big.size());
      } else {
        store->set("other" + std::to_string(thread), big);
      }
    }
  });
}

TEST(TcpStore, RanksMeetOverIt) {
  TcpStoreServer server("127.0.0.1", 0, "s");
  run_threads(32, [&](int rank) {
    auto store = connect(server.port(), "s", 60s);
    meet(*store, rank, 32, Deadline::in(60s));
  });
}

}  // namespace
}  // namespace lockstep

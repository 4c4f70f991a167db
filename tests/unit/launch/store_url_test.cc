// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/store_url.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/store/tcp_store_server.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string complaint(const std::string& url) {
  try {
    open_store(url);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(StoreUrl, OpensATcpStore) {
  const std::string secret = make_secret();
  const TcpStoreServer server("127.0.0.1", 0, secret);
  StoreUrlOptions options;
  options.secret = secret;
  const std::string url = "tcp://127.0.0.1:" + std::to_string(server.port());
  const auto one = open_store(url, options);
  const auto other = open_store(url, options);
  one->set("k", "v");
  EXPECT_EQ(to_string(other->get("k")), "v");
  EXPECT_EQ(server.load().clients, 2u);
}

TEST(StoreUrl, WaitsForATcpStoreAsLongAsItIsTold) {
  // A port that was free a moment ago and, as nobody listens, refuses.
  uint16_t port = 0;
  { port = TcpStoreServer("127.0.0.1", 0, "").port(); }
  StoreUrlOptions options;
  options.timeout = 50ms;
  EXPECT_THROW(open_store("tcp://127.0.0.1:" + std::to_string(port), options),
               TimeoutError);
}

TEST(StoreUrl, OpensAFileStore) {
  const testing::TempDir directory;
  const std::string path = directory.file("store");
  StoreUrlOptions options;
  options.run_id = "job";
  options.expected_ranks = 2;
  auto one = open_store("file://" + path, options);
  auto other = open_store("file://" + path, options);
  one->set("k", "v");
  EXPECT_EQ(to_string(other->get("k")), "v");
  // The file belongs to this run alone.
  EXPECT_THROW(open_store("file://" + path), UsageError);
  one.reset();
  EXPECT_NE(testing::read_file(path), "");
  other.reset();
  EXPECT_EQ(testing::read_file(path), "");  // the last one took it along
}

TEST(StoreUrl, MakesANewHashStoreEachTime) {
  const auto one = open_store("hash://");
  const auto other = open_store("hash://");
  one->set("k", "v");
  EXPECT_TRUE(one->check({"k"}));
  EXPECT_FALSE(other->check({"k"}));
}

TEST(StoreUrl, NamesTheSchemesThereAre) {
  for (const char* bad : {"http://host:1", "tcp", "host:29500", "", "://x",
                          "TCP://127.0.0.1:1", "hash:"}) {
    EXPECT_THAT(complaint(bad),
                AllOf(HasSubstr("'" + std::string(bad) + "' names no store"),
                      HasSubstr("tcp://"), HasSubstr("file:///"),
                      HasSubstr("hash://")));
  }
}

TEST(StoreUrl, MissesThePort) {
  EXPECT_THAT(complaint("tcp://host"), HasSubstr("port is missing"));
  EXPECT_THAT(complaint("tcp://host:0"), HasSubstr("has no port"));
  EXPECT_THAT(complaint("tcp://host:"), HasSubstr("port"));
  EXPECT_THAT(complaint("tcp://host:http"), HasSubstr("port"));
  EXPECT_THAT(complaint("tcp://:29500"), HasSubstr("host is missing"));
}

TEST(StoreUrl, MissesThePath) {
  for (const char* bad : {"file://", "file:///", "file://relative/path"}) {
    EXPECT_THAT(complaint(bad),
                AllOf(HasSubstr("has no path"), HasSubstr("file:///absolute")));
  }
}

class ServeStore : public ::testing::Test {
 protected:
  std::shared_ptr<Store> serve(Deadline::Duration linger) {
    options_.secret = "secret";
    options_.linger = linger;
    options_.timeout = 30s;
    return serve_store(address_, options_);
  }
  // A client that the server knows of: it has answered.
  std::shared_ptr<Store> connect() {
    auto store = open_store("tcp://" + to_text(address_), options_);
    store->num_keys();
    return store;
  }

  Address address_{"127.0.0.1", 0};
  StoreUrlOptions options_;
};

TEST_F(ServeStore, PicksAFreePort) {
  const auto store = serve(30s);
  ASSERT_NE(address_.port, 0);
  EXPECT_EQ(address_.host, "127.0.0.1");
  const auto other = connect();
  store->set("k", "v");
  EXPECT_EQ(to_string(other->get("k")), "v");
  // The other leaves first: names end in the reverse of their order.
}

TEST_F(ServeStore, ServesOnlyThoseWhoKnowTheSecret) {
  const auto store = serve(30s);
  options_.secret = "another";
  EXPECT_THROW(connect(), PeerError);
}

TEST_F(ServeStore, EndsAtOnceWhenNobodyElseIsThere) {
  auto store = serve(1h);
  connect().reset();
  store.reset();  // or the test never ends
  options_.timeout = 50ms;
  EXPECT_THROW(connect(), TimeoutError);
}

TEST_F(ServeStore, WaitsForTheOthersToLeave) {
  auto store = serve(1h);
  auto other = connect();
  std::atomic<bool> ending{false};
  std::atomic<bool> left{false};
  std::thread owner([&] {
    ending = true;
    store.reset();
    EXPECT_TRUE(left) << "it did not wait";
  });
  EXPECT_TRUE(testing::eventually([&] { return ending.load(); }));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(other->add("k", 1), i + 1);
  left = true;
  other.reset();
  owner.join();
}

TEST_F(ServeStore, DoesNotWaitForever) {
  auto store = serve(50ms);
  const auto other = connect();
  const auto begin = Deadline::Clock::now();
  store.reset();
  EXPECT_GE(Deadline::Clock::now() - begin, 50ms);
  EXPECT_THROW(other->set("k", "v"), PeerError);
}

}  // namespace
}  // namespace lockstep

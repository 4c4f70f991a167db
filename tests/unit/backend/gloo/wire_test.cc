// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/wire.h"

#include <poll.h>

#include <atomic>
#include <mutex>

#include <gmock/gmock.h>

#include "backend/gloo/wire_connect.h"
#include "lockstep/base/error.h"
#include "lockstep/net/listener.h"
#include "lockstep/store/hash_store.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using detail::Wire;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::message_of;

// Keeps what it is told.
class Notes : public Wire::Handler {
 public:
  virtual ~Notes() = default;

  void on_message(int peer, ConstBytes message) override {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::to_string(peer) + ":" + to_string(message));
  }
  void on_lost(int peer, const std::string& /*why*/) override {
    const std::lock_guard lock(mutex_);
    lost_.push_back(peer);
  }
  void on_clear(int /*peer*/) override {}
  void on_alarm() override { ++alarms; }

  std::atomic<int> alarms{0};

  std::vector<std::string> messages() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  std::vector<int> lost() {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> messages_;
  std::vector<int> lost_;
};

GroupPlace place_of(int rank, int size, std::shared_ptr<Store> store) {
  GroupPlace place;
  place.rank = rank;
  place.size = size;
  place.store = std::move(store);
  return place;
}

std::vector<Socket> connect(int rank, int size, std::shared_ptr<Store> store,
                            const std::string& terms = "the same",
                            Deadline::Duration time = 20s) {
  const GroupPlace place = place_of(rank, size, std::move(store));
  detail::Refusal refusal(place, "refused");
  return detail::connect_wire(place, {"127.0.0.1"}, terms, Deadline::in(time),
                              refusal);
}

// The wires of all ranks.
class Wires {
 public:
  explicit Wires(int size)
      : notes(static_cast<size_t>(size)), wires(static_cast<size_t>(size)) {
    const auto store = std::make_shared<HashStore>();
    testing::run_threads(size, [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      wires[at] =
          std::make_unique<Wire>(connect(rank, size, store), rank, notes[at]);
      wires[at]->start();
    });
  }

  std::vector<Notes> notes;
  std::vector<std::unique_ptr<Wire>> wires;
};

// Where rank 0 listens, as it wrote it into the store.
Address door_of_rank_0(Store& store) {
  const ByteVector door = store.get("gloo/door/0", Deadline::in(10s));
  ByteReader reader(door);
  reader.counted();
  reader.counted();
  reader.counted();
  reader.u64();
  const std::string host = to_string(reader.counted());
  return {host, static_cast<uint16_t>(reader.u32())};
}

TEST(GlooWire, MessagesArriveInOrderAndSayFromWhom) {
  Wires all(3);
  all.wires[2]->send(0, "a", "b");
  all.wires[2]->send(0, "c");
  EXPECT_TRUE(eventually([&] { return all.notes[0].messages().size() == 2; }));
  EXPECT_THAT(all.notes[0].messages(), ElementsAre("2:ab", "2:c"));
  all.wires[0]->send_all("all");
  EXPECT_TRUE(eventually([&] {
    return all.notes[1].messages().size() == 1 &&
           all.notes[2].messages().size() == 1;
  }));
}

TEST(GlooWire, WhatTheNetworkDoesNotTakeAtOnceWaits) {
  Wires all(2);
  const std::string large(Wire::kMostPayload, 'x');
  for (int i = 0; i < 30; ++i) all.wires[0]->send(1, "", large);
  all.wires[0]->send(1, "end");
  EXPECT_TRUE(eventually([&] { return all.notes[1].messages().size() == 31; }));
  EXPECT_EQ(all.notes[1].messages().back(), "0:end");
  EXPECT_TRUE(eventually([&] { return all.wires[0]->is_clear(1); }));
}

TEST(GlooWire, AConnectionThatEndsIsNoticedOnce) {
  Wires all(3);
  all.wires[1].reset();  // without a word
  EXPECT_TRUE(eventually([&] {
    return !all.notes[0].lost().empty() && !all.notes[2].lost().empty();
  }));
  EXPECT_THAT(all.notes[0].lost(), ElementsAre(1));
  all.wires[0]->send(1, "into the void");
  EXPECT_THAT(all.notes[2].lost(), ElementsAre(1));
}

TEST(GlooWire, LastWordsAreRead) {
  for (int round = 0; round < 20; ++round) {
    Wires all(2);
    // Unread on the other side when that one closes.
    all.wires[1]->send(0, "still here");
    all.wires[0]->send(1, std::string(100'000, '.'), "goodbye");
    testing::run_threads(2, [&](int rank) {
      all.wires[static_cast<size_t>(rank)]->close(Deadline::in(10s), 10s);
    });
    ASSERT_EQ(all.notes[1].messages().size(), 1U);
    ASSERT_EQ(all.notes[0].messages().size(), 1U);
  }
}

TEST(GlooWire, ReadNowNeedsNoThread) {
  Wires all(2);
  all.wires[0]->send(1, "now");
  // Over loopback it is there when send has returned.
  all.wires[1]->read_now();
  EXPECT_EQ(all.notes[1].messages().size(), 1U);
}

TEST(GlooWire, AnAlarmComesWhenItIsTime) {
  Wires all(2);
  all.wires[0]->set_alarm(Deadline::in(1h));
  all.wires[0]->set_alarm(Deadline::in(20ms));
  EXPECT_TRUE(eventually([&] { return all.notes[0].alarms == 1; }));
  EXPECT_EQ(all.notes[1].alarms, 0);
}

TEST(GlooWire, StrangersAreTurnedAway) {
  const auto store = std::make_shared<HashStore>();
  std::vector<Socket> first;
  Thread rank_0("rank 0", [&] { first = connect(0, 2, store); });
  const Deadline deadline = Deadline::in(10s);
  const auto address = resolve(door_of_rank_0(*store), deadline);
  Socket silent = Socket::connect(address, deadline);
  Socket gone = Socket::connect(address, deadline);
  gone.close();
  Socket garbage = Socket::connect(address, deadline);
  garbage.send_all(std::string(5000, '\xFF'), deadline);
  // A rank without the number from the store.
  Socket liar = Socket::connect(address, deadline);
  ByteWriter hello;
  hello.u64(12345).u32(1);
  liar.send_all(hello.bytes(), deadline);
  auto second = connect(1, 2, store);
  rank_0.join();
  ASSERT_TRUE(first[1].is_open());
  second[0].send_all("hello", deadline);
  std::string heard(5, ' ');
  first[1].recv_exactly(Bytes(heard.data(), heard.size()), deadline);
  EXPECT_EQ(heard, "hello");
}

TEST(GlooWire, RanksThatDoNotComeAreNamed) {
  const auto store = std::make_shared<HashStore>();
  EXPECT_THAT(message_of<TimeoutError>(
                  [&] { connect(0, 3, store, "the same", 100ms); }),
              HasSubstr("1, 2"));
}

// Something else has the port that a rank has written down.
TEST(GlooWire, AnotherProgramAtTheDoorIsFoundOut) {
  const auto store = std::make_shared<HashStore>();
  message_of<TimeoutError>([&] { connect(0, 2, store, "the same", 100ms); });
  store->delete_key("refused");
  // Nobody listens there any more.
  EXPECT_THAT(message_of<PeerError>([&] { connect(1, 2, store); }),
              HasSubstr("rank 0 cannot be reached at 127.0.0.1:"));
  store->delete_key("refused");
  // And now somebody who does not know the number.
  const Address door = door_of_rank_0(*store);
  const Deadline deadline = Deadline::in(10s);
  Listener listener(resolve(door, deadline).front());
  Thread liar("liar", [&] {
    Socket visitor = listener.accept(deadline);
    visitor.send_all(std::string(12, '\0'), deadline);
    visitor.wait_for(POLLRDHUP, deadline);
  });
  EXPECT_THAT(message_of<PeerError>([&] { connect(1, 2, store); }),
              HasSubstr("another program answers in place of rank 0"));
}

TEST(GlooWire, OtherTermsAreAMismatch) {
  const auto store = std::make_shared<HashStore>();
  testing::run_threads(3, [&](int rank) {
    EXPECT_THAT(message_of<MismatchError>([&] {
                  connect(rank, 3, store, rank == 1 ? "another" : "one way");
                }),
                ::testing::AnyOf(
                    HasSubstr("rank 0 uses one way, but rank 1 uses another"),
                    HasSubstr("rank 1 uses another, but rank 2 uses one way")));
  });
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// What every backend promises about messages between two ranks.

#include "contract/backend_contract.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr size_t kLarge = size_t{8} << 20;  // bytes: more than any mailbox

TEST_P(BackendContract, AMessageArrives) {
  run_ranks(2, [](ProcessGroup& group) {
    for (const bool sync : {false, true}) {
      std::vector<int32_t> x = {7, 8};
      CallOptions options;
      options.sync = sync;
      if (group.rank() == 0) {
        group.send(buffer_of(x), 1, 3, options)->wait();
      } else {
        x = {0, 0};
        auto work = group.recv(buffer_of(x), 0, 3, options);
        work->wait();
        EXPECT_THAT(x, ElementsAre(7, 8));
        EXPECT_EQ(work->source_rank(), 0);
      }
    }
  });
}

TEST_P(BackendContract, MessagesOfOneTagKeepTheirOrder) {
  run_ranks(2, [](ProcessGroup& group) {
    constexpr int kCount = 50;
    std::vector<std::vector<int32_t>> values(kCount);
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < kCount; ++i) {
      auto& one = values[static_cast<size_t>(i)];
      one.assign(i % 3 == 0 ? 40'000 : 1, group.rank() == 0 ? i : -1);
      // Sizes differ: in the wrong order it would be an error.
      works.push_back(group.rank() == 0 ? group.send(buffer_of(one), 1)
                                        : group.recv(buffer_of(one), 0));
    }
    for (const auto& work : works) work->wait();
    for (int i = 0; i < kCount; ++i) {
      EXPECT_TRUE(all_are(values[static_cast<size_t>(i)], i));
    }
  });
}

TEST_P(BackendContract, MessagesAreMatchedByTagWhateverTheirOrder) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<int32_t> a = {1};
    std::vector<int32_t> b = {2};
    std::vector<int32_t> c(100'000, 3);
    if (group.rank() == 0) {
      auto last = group.send(buffer_of(c), 1, kLastTag);
      group.send(buffer_of(a), 1, 0)->wait();
      group.send(buffer_of(b), 1, 1)->wait();
      last->wait();
    } else {
      group.recv(buffer_of(a), 0, 1)->wait();
      group.recv(buffer_of(b), 0, 0)->wait();
      group.recv(buffer_of(c), 0, kLastTag)->wait();
      EXPECT_EQ(a[0], 2);
      EXPECT_EQ(b[0], 1);
      EXPECT_TRUE(all_are(c, 3));
    }
  });
}

TEST_P(BackendContract, AnySourceTakesWhoeverSendsAndSaysWho) {
  run_ranks(4, [](ProcessGroup& group) {
    if (group.rank() != 0) {
      std::vector<int32_t> x = {group.rank() * 10};
      group.send(buffer_of(x), 0, 5)->wait();
      return;
    }
    std::vector<int> sources;
    for (int i = 1; i < group.size(); ++i) {
      std::vector<int32_t> x = {-1};
      auto work = group.recv_any(buffer_of(x), 5);
      work->wait();
      EXPECT_EQ(x[0], work->source_rank() * 10);
      sources.push_back(work->source_rank());
    }
    EXPECT_THAT(sources, ::testing::UnorderedElementsAre(1, 2, 3));
  });
}

TEST_P(BackendContract, SendingToOneselfWorks) {
  run_ranks(2, [](ProcessGroup& group) {
    for (const size_t bytes : {size_t{0}, size_t{1}, kLarge}) {
      std::vector<uint8_t> x(bytes, 5);
      std::vector<uint8_t> y(bytes);
      auto sent = group.send(buffer_of(x), group.rank(), 9);
      group.recv(buffer_of(y), group.rank(), 9)->wait();
      sent->wait();
      EXPECT_EQ(x, y);
      auto received = group.recv_any(buffer_of(y), 10);
      group.send(buffer_of(x), group.rank(), 10)->wait();
      received->wait();
      EXPECT_EQ(received->source_rank(), group.rank());
    }
  });
}

TEST_P(BackendContract, ASendWhoseHandleIsDroppedStillDelivers) {
  run_ranks(2, [](ProcessGroup& group) {
    for (const size_t bytes : {size_t{1}, kLarge}) {
      if (group.rank() == 0) {
        auto x = std::make_shared<std::vector<uint8_t>>(bytes, 42);
        CallOptions options;
        options.keepalive = x;
        group.send(buffer_of(*x), 1, 0, options);
      } else {
        std::vector<uint8_t> x(bytes);
        group.recv(buffer_of(x), 0)->wait();
        EXPECT_EQ(x, std::vector<uint8_t>(bytes, 42));
      }
    }
  });
}

TEST_P(BackendContract, DestroyingAGroupDeliversItsSends) {
  run_ranks(2, [](ProcessGroup& world) {
    auto group = short_group(world);
    std::vector<uint8_t> x(kLarge, 42);
    if (group->rank() == 0) {
      group->send(buffer_of(x), 1);
      group.reset();
    } else {
      x.assign(kLarge, 0);
      group->recv(buffer_of(x), 0)->wait();
      EXPECT_EQ(x, std::vector<uint8_t>(kLarge, 42));
    }
  });
}

TEST_P(BackendContract, DestroyingAGroupWithdrawsItsReceives) {
  run_ranks(2, [](ProcessGroup& world) {
    const Quickly quickly;
    auto group = short_group(world);
    std::vector<uint8_t> x(8);
    auto pending = group->recv(buffer_of(x), group->rank());
    world.barrier()->wait();
    group.reset();
    EXPECT_THAT(message_of<AbortedError>([&] { pending->wait(); }),
                HasSubstr("withdrawn"));
  });
}

TEST_P(BackendContract, SizesThatDifferAreAnErrorOfTheReceiver) {
  run_ranks(2, [](ProcessGroup& group) {
    for (const size_t bytes : {size_t{16}, kLarge}) {
      std::vector<uint8_t> x(bytes, 1);
      if (group.rank() == 0) {
        group.send(buffer_of(x), 1, 6)->wait();
      } else {
        std::vector<uint8_t> y(bytes - 8, 0);
        const auto text = message_of<MismatchError>(
            [&] { group.recv(buffer_of(y), 0, 6)->wait(); });
        EXPECT_THAT(text, HasSubstr(std::to_string(bytes)));
        EXPECT_THAT(text, HasSubstr(std::to_string(bytes - 8)));
        EXPECT_TRUE(all_are(y, uint8_t{0}));
      }
      // The group goes on.
      std::vector<int32_t> z = {1};
      group.all_reduce(buffer_of(z))->wait();
      EXPECT_THAT(z, ElementsAre(2));
    }
    EXPECT_EQ(group.failure(), nullptr);
  });
}

TEST_P(BackendContract, ATransferThatTimesOutIsWithdrawn) {
  run_ranks(2, [](ProcessGroup& group) {
    const Quickly quickly;
    std::vector<uint8_t> x(kLarge, 1);
    for (const bool sync : {false, true}) {
      CallOptions options = with_timeout(30ms);
      options.sync = sync;
      if (group.rank() == 0) {
        auto text = message_of<TimeoutError>(
            [&] { group.send(buffer_of(x), 1, 4, options)->wait(); });
        EXPECT_THAT(text, HasSubstr("30 ms"));
        EXPECT_THAT(text, HasSubstr("rank 1"));
        EXPECT_THAT(text, HasSubstr("rank 0: send"));
      } else {
        auto text = message_of<TimeoutError>(
            [&] { group.recv(buffer_of(x), 0, 5, options)->wait(); });
        EXPECT_THAT(text, HasSubstr("rank 0 has not sent"));
        text = message_of<TimeoutError>(
            [&] { group.recv_any(buffer_of(x), 5, options)->wait(); });
        EXPECT_THAT(text, HasSubstr("nobody has sent"));
      }
      group.barrier()->wait();
      // Nothing of the old transfers is left to meet these.
      std::vector<uint8_t> y(3, group.rank() == 0 ? 9 : 0);
      if (group.rank() == 0) {
        group.send(buffer_of(y), 1, 4)->wait();
        group.send(buffer_of(y), 1, 5)->wait();
      } else {
        group.recv(buffer_of(y), 0, 4)->wait();
        EXPECT_THAT(y, Each(9));
        group.recv(buffer_of(y), 0, 5)->wait();
      }
      EXPECT_TRUE(all_are(x, uint8_t{1}));
    }
  });
}

TEST_P(BackendContract, TagsAndPeersOutOfRangeAreRefused) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<float> x(1);
    for (const int64_t tag : {int64_t{-1}, kLastTag + 1}) {
      EXPECT_THAT(
          message_of<UsageError>([&] { group.send(buffer_of(x), 0, tag); }),
          HasSubstr("2^31-1"));
      message_of<UsageError>([&] { group.recv(buffer_of(x), 0, tag); });
      message_of<UsageError>([&] { group.recv_any(buffer_of(x), tag); });
    }
    EXPECT_THAT(message_of<UsageError>([&] { group.send(buffer_of(x), 2); }),
                HasSubstr("peer is 2"));
    message_of<UsageError>([&] { group.send(buffer_of(x), kAnyRank); });
    message_of<UsageError>([&] { group.recv(buffer_of(x), 2); });
    const Buffer bad{nullptr, 3, DType::kInt8};
    message_of<UsageError>([&] { group.send(bad, 0); });
  });
}

TEST_P(BackendContract, SourceRankIsForReceivesThatSucceeded) {
  run_ranks(1, [](ProcessGroup& group) {
    std::vector<float> x(1);
    EXPECT_THAT(message_of<UsageError>([&] { group.barrier()->source_rank(); }),
                HasSubstr("receives"));
    auto pending = group.recv(buffer_of(x), 0);
    message_of<UsageError>([&] { (void)pending->source_rank(); });
    auto sent = group.send(buffer_of(x), 0);
    sent->wait();
    pending->wait();
    EXPECT_EQ(pending->source_rank(), 0);
    message_of<UsageError>([&] { (void)sent->source_rank(); });
  });
}

TEST_P(BackendContract, MessagesPassCollectivesThatAreStuck) {
  run_ranks(2, [](ProcessGroup& group) {
    std::vector<int32_t> x = {1};
    if (group.rank() == 0) {
      auto stuck = group.barrier();  // rank 1 comes only after the message
      group.send(buffer_of(x), 1)->wait();
      stuck->wait();
    } else {
      group.recv(buffer_of(x), 0)->wait();
      group.barrier()->wait();
    }
  });
}

TEST_P(BackendContract, ManyMessagesBetweenAllPairsAtOnce) {
  run_ranks(4, [](ProcessGroup& group) {
    constexpr int kRounds = 20;
    const int n = group.size();
    std::vector<std::vector<int32_t>> memory;
    memory.reserve(size_t{2} * kRounds * 4);
    std::vector<std::shared_ptr<Work>> works;
    std::vector<std::pair<size_t, int32_t>> expected;
    for (int round = 0; round < kRounds; ++round) {
      for (int peer = 0; peer < n; ++peer) {
        const size_t count = round % 4 == 0 ? 20'000 : 3;
        memory.emplace_back(count, group.rank() * 1000 + round);
        works.push_back(group.send(buffer_of(memory.back()), peer, round));
        memory.emplace_back(count, -1);
        expected.emplace_back(memory.size() - 1, peer * 1000 + round);
        works.push_back(group.recv(buffer_of(memory.back()), peer, round));
      }
    }
    for (const auto& work : works) work->wait();
    for (const auto& [index, value] : expected) {
      EXPECT_TRUE(all_are(memory[index], value));
    }
  });
}

}  // namespace
}  // namespace lockstep

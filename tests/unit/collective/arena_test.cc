// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/arena.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/collective/arena_patterns.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using testing::message_of;
using testing::run_threads;

class ThreadArena : public Arena {
 public:
  using Arena::Arena;
  MemoryRef ref_of(const Buffer& buffer) const override {
    return {1, reinterpret_cast<uintptr_t>(buffer.data)};
  }
  std::byte* at(int /*rank*/, MemoryRef ref) const override {
    return reinterpret_cast<std::byte*>(ref.offset);
  }
};

// The arenas of `size` ranks over one block.
class Ranks {
 public:
  explicit Ranks(int size) : block_(new_block(size)) {
    for (int rank = 0; rank < size; ++rank) {
      arenas_.push_back(std::make_unique<ThreadArena>(
          block_.get(), rank, size, WaitPolicy{}, tuning_of(size)));
    }
  }
  ThreadArena& operator[](int rank) {
    return *arenas_[static_cast<size_t>(rank)];
  }

 private:
  struct Free {
    void operator()(void* block) const {
      ::operator delete (block, std::align_val_t{64});
    }
  };
  static ArenaTuning tuning_of(int size) {
    return ArenaTuning::for_ranks(size, false);
  }
  static void* new_block(int size) {
    const size_t bytes = Arena::block_bytes(size, tuning_of(size));
    void* const block = ::operator new (bytes, std::align_val_t{64});
    std::memset(block, 0, bytes);
    return block;
  }

  std::unique_ptr<void, Free> block_;
  std::vector<std::unique_ptr<ThreadArena>> arenas_;
};

ArenaRecord record_of(uint64_t sequence) {
  ArenaRecord record;
  record.signature.sequence = sequence;
  return record;
}

TEST(Arena, ShowsEachRankWhatTheOthersBrought) {
  Ranks ranks(3);
  run_threads(3, [&](int rank) {
    ThreadArena& arena = ranks[rank];
    for (uint64_t round = 0; round < 500; ++round) {
      ArenaRecord record = record_of(round);
      record.factor =
          static_cast<double>(rank * 1000) + static_cast<double>(round);
      std::memcpy(arena.payload(sizeof rank), &rank, sizeof rank);
      Patience patience(60s);
      arena.meet(record, patience);
      for (int peer = 0; peer < 3; ++peer) {
        EXPECT_EQ(arena.record(peer).factor, static_cast<double>(peer * 1000) +
                                                 static_cast<double>(round));
        int shown = -1;
        std::memcpy(&shown, arena.payload(peer, sizeof shown), sizeof shown);
        EXPECT_EQ(shown, peer);
      }
    }
  });
}

TEST(Arena, PartingWaitsForTheWorkOfAll) {
  Ranks ranks(3);
  std::atomic<int> worked{0};
  run_threads(3, [&](int rank) {
    for (int round = 1; round <= 200; ++round) {
      Patience patience(60s);
      ranks[rank].meet(record_of(static_cast<uint64_t>(round)), patience);
      ranks[rank].work_and_part(patience, [&] { ++worked; });
      EXPECT_GE(worked, 3 * round);
    }
  });
}

TEST(Arena, RecordsThatDifferAreAMismatchForAll) {
  Ranks ranks(3);
  run_threads(3, [&](int rank) {
    Patience patience(60s);
    EXPECT_THAT(message_of<MismatchError>([&] {
                  ranks[rank].meet(record_of(rank == 1 ? 8 : 9), patience);
                }),
                HasSubstr("rank 1 called barrier #8"));
  });
}

struct Listener final : Patience::Listener {
  void on_late(const std::vector<int>& missing, const Patience&) override {
    late = missing;
    ++calls;
  }
  std::vector<int> late;
  std::atomic<int> calls{0};
};

TEST(Arena, ATimeoutNamesWhoIsMissingAndTellsTheLateOne) {
  Ranks ranks(4);
  Listener listener;  // says that rank 2 is there
  run_threads(2, [&](int i) {
    if (i == 0) eventually([&] { return listener.calls > 0; });
    Patience patience(i == 0 ? Deadline::Duration(50ms) : 60s, 1ms,
                      i == 0 ? nullptr : &listener);
    EXPECT_THAT(message_of<TimeoutError>(
                    [&] { ranks[2 * i].meet(record_of(0), patience); }),
                HasSubstr("waiting for ranks 1, 3;"));
  });
  Patience patience(60s);
  EXPECT_THAT(
      message_of<AbortedError>([&] { ranks[1].meet(record_of(0), patience); }),
      HasSubstr("rank 0 ended the group: timed out after 50 ms"));
  message_of<TimeoutError>([&] { ranks[3].meet(record_of(0), patience); });
}

TEST(Arena, SaysWhoIsLateWhileItWaits) {
  Ranks ranks(3);
  Listener listener;
  run_threads(2, [&](int i) {
    if (i == 0) {
      eventually([&] { return listener.calls >= 2; });
      return ranks[0].leave();
    }
    Patience patience(60s, 1ms, &listener);
    message_of<PeerError>([&] { ranks[1].meet(record_of(0), patience); });
  });
  EXPECT_THAT(listener.late, ElementsAre(0, 2));
}

TEST(Arena, ARankThatLeavesIsNamedAtOnce) {
  Ranks ranks(3);
  run_threads(3, [&](int rank) {
    if (rank == 2) return ranks[2].leave();
    Patience patience(60s);
    EXPECT_THAT(message_of<PeerError>(
                    [&] { ranks[rank].meet(record_of(0), patience); }),
                HasSubstr("rank 2 has left"));
  });
}

TEST(Arena, TheFirstFailureCounts) {
  Ranks ranks(2);
  ranks[0].fail({ErrorKind::kAborted, 0, -1, "first"});
  ranks[1].fail({ErrorKind::kAborted, 1, -1, "second"});
  ranks[0].leave();
  Patience patience(60s);
  EXPECT_THAT(
      message_of<AbortedError>([&] { ranks[1].meet(record_of(0), patience); }),
      HasSubstr("rank 0 ended the group: first"));
}

TEST(Arena, ALongReasonIsCutNotLost) {
  Ranks ranks(2);
  ranks[0].fail({ErrorKind::kAborted, 0, -1, std::string(5000, 'x')});
  Patience patience(60s);
  EXPECT_THAT(
      message_of<AbortedError>([&] { ranks[1].meet(record_of(0), patience); }),
      HasSubstr("xxxx"));
}

// An error on one rank, in the middle of its work, ends it for all; and nobody
// gets away while another may still write into its memory.
TEST(Arena, AnErrorOfTheWorkFailsAllAfterTheirWork) {
  for (int i = 0; i < 50; ++i) {
    Ranks ranks(3);
    std::atomic<int> working{0};
    run_threads(3, [&](int rank) {
      Patience patience(60s);
      const auto work = [&] {
        ++working;
        if (rank == 1) {
          --working;
          throw SystemError("no memory", ENOMEM);
        }
        std::this_thread::yield();
        --working;
      };
      try {
        ranks[rank].meet(record_of(0), patience);
        ranks[rank].work_and_part(patience, work);
        ADD_FAILURE() << "no error on rank " << rank;
      } catch (const Error& error) {
        EXPECT_EQ(working, 0);
        EXPECT_EQ(error.kind(),
                  rank == 1 ? ErrorKind::kSystem : ErrorKind::kAborted);
        EXPECT_THAT(error.what(), HasSubstr("no memory"));
      }
    });
  }
}

// Whether a rank arrives in the last moment or just after it, all agree.
TEST(Arena, ATimeoutIsForAllOrForNobody) {
  int in_time = 0;
  for (int i = 0; i < 60; ++i) {
    Ranks ranks(3);
    std::atomic<int> passed{0};
    std::atomic<bool> go{false};
    run_threads(3, [&](int rank) {
      if (rank == 2) {
        while (!go) std::this_thread::yield();
        const auto wait = std::chrono::microseconds(1700 + i * 10);
        const auto until = Deadline::in(wait);
        while (!until.passed()) std::this_thread::yield();
      }
      Patience patience(2ms);
      go = true;
      try {
        ranks[rank].meet(record_of(0), patience);
        ++passed;
      } catch (const Error& error) {
        EXPECT_TRUE(error.kind() == ErrorKind::kTimeout ||
                    error.kind() == ErrorKind::kAborted)
            << error.what();
      }
    });
    EXPECT_TRUE(passed == 0 || passed == 3) << passed;
    in_time += passed / 3;
  }
  RecordProperty("in_time", in_time);
}

TEST(ArenaPatterns, SmallOperationsMeetOnce) {
  const auto limit = [](int ranks) {
    return ArenaTuning::for_ranks(ranks, false).one_phase_bytes;
  };
  EXPECT_EQ(limit(2), Arena::kPayloadBytes);
  for (int ranks = 1; ranks <= 128; ranks *= 2) {
    EXPECT_LE(limit(ranks), Arena::kPayloadBytes);
    EXPECT_GE(limit(ranks), limit(2 * ranks));
  }
}

// Both sides of the limit take different ways to the same bits.
TEST(ArenaPatterns, BothWaysGiveTheSameBits) {
  constexpr int kRanks = 3;
  const size_t limit =
      ArenaTuning::for_ranks(kRanks, false).one_phase_bytes / sizeof(float);
  Ranks ranks(kRanks);
  run_threads(kRanks, [&](int rank) {
    std::vector<float> in(limit + 1);
    for (size_t i = 0; i < in.size(); ++i) {
      in[i] = 1.0F / static_cast<float>(i + 1 + static_cast<size_t>(rank) * 7);
    }
    std::vector<float> small(limit);
    std::vector<float> large(limit + 1);
    for (auto* out : {&small, &large}) {
      CollectiveOp op;
      op.kind = OpKind::kAllReduce;
      op.in = buffer_of(in.data(), out->size());
      op.out = buffer_of(*out);
      op.signature.kind = op.kind;
      Patience patience(60s);
      run_on_arena(ranks[rank], op, patience);
    }
    EXPECT_EQ(std::memcmp(small.data(), large.data(), limit * sizeof(float)),
              0);
  });
}

}  // namespace
}  // namespace lockstep

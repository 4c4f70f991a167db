// SPDX-License-Identifier: Apache-2.0
// What the shm backend does beyond the contract of all backends.
#include "lockstep/backend/shm.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "lockstep/store/hash_store.h"
#include "support/message_of.h"
#include "support/support.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::run_threads;
using namespace std::chrono_literals;

std::shared_ptr<ProcessGroup> make(const BackendFactory& factory,
                                   const std::shared_ptr<Store>& store,
                                   int rank, int size) {
  GroupOptions options;
  options.timeout = 60s;
  return ProcessGroup::make(factory, store, rank, size, options);
}

// Runs `body` on the ranks of one group.
template <class Body>
void with_groups(int size, const Body& body, const ShmOptions& options = {}) {
  const auto factory = make_shm_factory(options);
  const auto store = std::make_shared<HashStore>();
  run_threads(size, [&](int rank) { body(*make(factory, store, rank, size)); });
}

size_t kilobytes(const char* name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  size_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
  }
  return 0;
}

TEST(Shm, NeedsAStore) {
  EXPECT_THAT(
      message_of<UsageError>([] { make(make_shm_factory(), nullptr, 0, 1); }),
      HasSubstr("needs a store"));
}

TEST(Shm, OneRankIsAGroupToo) {
  with_groups(1, [](ProcessGroup& group) {
    std::vector<float> x(100'000, 3);
    group.all_reduce(buffer_of(x))->wait();
    EXPECT_EQ(x.back(), 3);
    EXPECT_STREQ(group.backend_name(), "shm");
  });
}

// Rank 0 chooses the sizes for all. If it cannot, all hear why, at once.
TEST(Shm, AWrongOptionOfRank0IsToldToAll) {
  ShmOptions options;
  options.window_bytes = 100;
  const auto factory = make_shm_factory(options);
  const auto store = std::make_shared<HashStore>();
  run_threads(3, [&](int rank) {
    EXPECT_THAT(message_of<UsageError>([&] { make(factory, store, rank, 3); }),
                HasSubstr("window_bytes is 100; it is a multiple of 64"));
  });
}

// As when a rank dies while a group is made from another.
TEST(Shm, MakingAGroupEndsWhenItHasBecomeHopeless) {
  for (const int rank : {0, 1}) {
    GroupPlace place;
    place.name = "child";
    place.rank = rank;
    place.size = 2;
    place.store = std::make_shared<HashStore>();
    place.timeout = 60s;
    place.bell = std::make_shared<Bell>();
    place.check = [] { throw PeerError("rank 7 died", 7); };
    const auto start = Deadline::Clock::now();
    EXPECT_THAT(message_of<PeerError>([&] { make_shm_factory()(place); }),
                HasSubstr("rank 7 died"));
    EXPECT_LT(Deadline::Clock::now() - start, 5s);
  }
}

TEST(Shm, TheEnvironmentOverridesTheTable) {
  ::setenv("LOCKSTEP_SHM_ONE_PHASE_BYTES", "99999", 1);
  const std::string text = message_of<UsageError>(
      [] { make(make_shm_factory(), std::make_shared<HashStore>(), 0, 1); });
  ::unsetenv("LOCKSTEP_SHM_ONE_PHASE_BYTES");
  EXPECT_THAT(text, HasSubstr("one_phase_bytes is 99999; it is 16384"));
}

// Whatever way the bytes take, the bits are the same: one phase, in place, or
// staged in windows of any size.
TEST(Shm, AllWaysGiveTheSameBits) {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 4000;
  const auto value = [](int rank, size_t i) {
    return 1.0F / static_cast<float>(i * 7 + static_cast<size_t>(rank) + 1);
  };
  std::vector<float> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    expected[i] = (value(0, i) + value(1, i) + value(2, i)) * (1.0F / kRanks);
  }
  ShmOptions one_phase;
  one_phase.one_phase_bytes = 16 * 1024;
  ShmOptions small_windows;
  small_windows.one_phase_bytes = 0;
  small_windows.window_bytes = 192;
  ShmOptions large_windows = small_windows;
  large_windows.window_bytes = 1 << 20;
  for (const auto& options : {one_phase, small_windows, large_windows}) {
    with_groups(
        kRanks,
        [&](ProcessGroup& group) {
          std::vector<float> x(kCount);
          for (size_t i = 0; i < kCount; ++i) x[i] = value(group.rank(), i);
          const auto memory = group.allocate(kCount * sizeof(float));
          std::memcpy(memory.data(), x.data(), memory.size());
          group.all_reduce(buffer_of(x), ReduceOp::kAverage)->wait();
          group
              .all_reduce(memory.buffer(DType::kFloat32, kCount),
                          ReduceOp::kAverage)
              ->wait();
          EXPECT_EQ(x, expected);
          EXPECT_EQ(std::memcmp(memory.data(), x.data(), memory.size()), 0);
        },
        options);
  }
}

// Its owner drops it, and the pages are free though others still map them.
TEST(Shm, DroppedMemoryIsGivenBackAtOnce) {
  constexpr size_t kBytes = size_t{64} << 20;
  with_groups(2, [&](ProcessGroup& group) {
    const auto shared = [&] { return kilobytes("Shmem:"); };
    auto memory = group.allocate(kBytes);
    group.barrier()->wait();
    const size_t with_memory = shared();
    group.barrier()->wait();
    memory = {};
    group.barrier()->wait();
    // Half of what was taken, so that others on the machine do not matter.
    EXPECT_LT(shared() + kBytes / 1024, with_memory);
    group.barrier()->wait();
    // The next piece has another number, and works.
    memory = group.allocate(1 << 20);
    const auto ones = memory.buffer(DType::kInt32, 1 << 18);
    std::fill_n(static_cast<int32_t*>(ones.data), ones.count, 1);
    group.all_reduce(ones)->wait();
    EXPECT_EQ(static_cast<int32_t*>(ones.data)[(1 << 18) - 1], 2);
  });
}

TEST(Shm, MemoryOfAnotherGroupIsOrdinaryMemory) {
  with_groups(2, [](ProcessGroup& group) {
    const auto other = group.duplicate("other");
    const auto memory = other->allocate(1 << 20);
    const auto ones = memory.buffer(DType::kInt32, 1 << 18);
    std::fill_n(static_cast<int32_t*>(ones.data), ones.count, 1);
    group.all_reduce(ones)->wait();
    EXPECT_EQ(static_cast<int32_t*>(ones.data)[7], 2);
  });
}

TEST(Shm, MoreThanThereIsIsAnErrorForAll) {
  with_groups(2, [](ProcessGroup& group) {
    try {
      group.allocate(size_t{1} << 50);
      ADD_FAILURE() << "allocated";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("there is room for"));
    }
  });
}

}  // namespace
}  // namespace lockstep

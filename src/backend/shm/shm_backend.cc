// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/shm/hall.h"
#include "backend/shm/peer_watch.h"
#include "backend/shm/post_office.h"
#include "backend/shm/regions.h"
#include "lockstep/backend/shm.h"
#include "lockstep/base/env.h"
#include "lockstep/collective/arena_patterns.h"

namespace lockstep {
namespace {

using detail::Hall;
using detail::PeerWatch;
using detail::PostOffice;
using detail::Regions;

// Registered memory is what others see.
class ShmArena : public Arena {
 public:
  ShmArena(const Hall& hall, int rank, WaitPolicy policy)
      : Arena(hall.arena_block(), rank, hall.size(), policy, hall.tuning()),
        regions_(hall, rank) {}

  MemoryRef ref_of(const Buffer& buffer) const override {
    return regions_.ref_of(buffer);
  }
  std::byte* at(int rank, MemoryRef ref) const override {
    return regions_.at(rank, ref);
  }

  RegisteredMemory allocate(const CollectiveOp& op, Patience& patience) {
    ArenaRecord record;
    record.signature = op.signature;
    meet(record, patience);  // all ask for the same
    const auto show = [&](int mine) {
      std::memcpy(payload(sizeof(mine)), &mine, sizeof(mine));
      meet(record, patience);
      std::vector<int> shown(static_cast<size_t>(size()));
      for (int rank = 0; rank < size(); ++rank) {
        std::memcpy(&shown[static_cast<size_t>(rank)],
                    payload(rank, sizeof(mine)), sizeof(mine));
      }
      return shown;
    };
    return regions_.add(static_cast<size_t>(op.signature.dims[0]), show);
  }

  void keep_pages() noexcept { regions_.keep_pages(); }

 protected:
  // Nobody but its own rank touches private memory, and registered memory is
  // dead after a failure: a peer that is stopped must hold up nobody.
  void settle() override {}

 private:
  Regions regions_;
};

size_t from_environment(const char* name, size_t otherwise) {
  const auto value = env::integer(name);
  if (!value) return otherwise;
  LOCKSTEP_CHECK(*value >= 0, UsageError, "{} is {}; it is 0 or more", name,
                 *value);
  return static_cast<size_t>(*value);
}

ArenaTuning tuning_of(const ShmOptions& options, int size) {
  LOCKSTEP_CHECK(size <= Arena::kMostRanks, UsageError,
                 "{} ranks on one host; there is room for {}", size,
                 Arena::kMostRanks);
  ArenaTuning tuning = ArenaTuning::for_ranks(size, true);
  tuning.one_phase_bytes = options.one_phase_bytes.value_or(
      from_environment("LOCKSTEP_SHM_ONE_PHASE_BYTES", tuning.one_phase_bytes));
  tuning.window_bytes = options.window_bytes.value_or(
      from_environment("LOCKSTEP_SHM_WINDOW_BYTES", tuning.window_bytes));
  LOCKSTEP_CHECK(tuning.one_phase_bytes <= Arena::kPayloadBytes, UsageError,
                 "one_phase_bytes is {}; it is {} at most",
                 tuning.one_phase_bytes, Arena::kPayloadBytes);
  LOCKSTEP_CHECK(tuning.window_bytes % 64 == 0 &&
                     tuning.window_bytes >= 64 * static_cast<size_t>(size),
                 UsageError,
                 "window_bytes is {}; it is a multiple of 64, and at least 64 "
                 "for each of {} ranks",
                 tuning.window_bytes, size);
  return tuning;
}

// What the groups made by one factory share.
struct Hub {
  ShmOptions options;
  PeerWatch watch;

  // Ranks of a small group compete for cores with those of the first, which has
  // all of them.
  WaitPolicy policy_for(const Hall& hall) {
    const std::lock_guard lock(mutex);
    if (!policy) {
      cpu_set_t cores;
      CPU_ZERO(&cores);
      for (int rank = 0; rank < hall.size(); ++rank) {
        CPU_OR(&cores, &cores, &hall.entry(rank).cores);
      }
      policy = WaitPolicy::for_ranks(hall.size(), CPU_COUNT(&cores));
    }
    return *policy;
  }

  std::mutex mutex;
  std::optional<WaitPolicy> policy LOCKSTEP_GUARDED_BY(mutex);
};

class ShmBackend : public Backend {
 public:
  ShmBackend(std::shared_ptr<Hub> hub, const GroupPlace& place)
      : hub_(std::move(hub)),
        hall_(std::make_shared<Hall>(
            place, [&] { return tuning_of(hub_->options, place.size); })),
        arena_(*hall_, place.rank, hub_->policy_for(*hall_)),
        office_(*hall_, place.rank) {
    place.bell->move_to({hall_, &hall_->entry(place.rank).bell});
    try {
      watch_peers();
    } catch (...) {
      leave();
      throw;
    }
  }

  ~ShmBackend() override { leave(); }

  const char* name() const override { return "shm"; }

  void run(const CollectiveOp& op, Patience& patience) override {
    run_on_arena(arena_, op, patience);
  }

  std::unique_ptr<Transfer> send(Buffer buffer, int peer,
                                 uint32_t tag) override {
    return office_.send(buffer, peer, tag);
  }
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any,
                                 uint32_t tag) override {
    return office_.recv(buffer, peer_or_any, tag);
  }

  RegisteredMemory allocate(const CollectiveOp& op,
                            Patience& patience) override {
    return arena_.allocate(op, patience);
  }

  void check() const override {
    arena_.check();
    office_.check();
  }

  void interrupt(const Failure& reason) noexcept override {
    arena_.keep_pages();
    arena_.fail(reason);
    office_.fail(reason);
  }

 private:
  void leave() noexcept {
    watched_.clear();
    arena_.leave();
    office_.close(arena_.rank());
  }

  void watch_peers() {
    std::map<pid_t, std::vector<int>> ranks_of;
    for (int rank = 0; rank < hall_->size(); ++rank) {
      ranks_of[hall_->entry(rank).pid].push_back(rank);
    }
    ranks_of.erase(::getpid());
    for (const auto& [pid, ranks] : ranks_of) {
      const auto on_end = [this, pid = pid, ranks = ranks] {
        on_death(pid, ranks);
      };
      try {
        watched_.push_back(hub_->watch.watch(pid, on_end));
      } catch (const SystemError& error) {
        if (error.error_number() != ESRCH) throw;
        on_end();
      }
    }
  }

  // Everybody notices; the first one tells.
  void on_death(pid_t pid, const std::vector<int>& ranks) noexcept {
    const Failure failure{
        ErrorKind::kPeer, arena_.rank(), ranks.front(),
        fmt::format("rank{} {} died: process {} has ended without leaving the "
                    "group; look at its output",
                    ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), pid)};
    arena_.keep_pages();
    for (const int rank : ranks) {
      arena_.fail_for_dead(rank, failure);
      office_.close_dead(rank, failure);
    }
  }

  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<Hall> hall_;
  ShmArena arena_;
  PostOffice office_;
  std::vector<std::unique_ptr<PeerWatch::Subscription>> watched_;
};

}  // namespace

BackendFactory make_shm_factory(const ShmOptions& options) {
  auto hub = std::make_shared<Hub>();
  hub->options = options;
  return [hub](const GroupPlace& place) {
    return std::make_unique<ShmBackend>(hub, place);
  };
}

}  // namespace lockstep

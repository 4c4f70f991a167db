// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/collective/collective_op.h"
#include "lockstep/collective/failure.h"
#include "lockstep/collective/gate.h"
#include "lockstep/collective/patience.h"

namespace lockstep {

// Where a piece of memory lies, in words that mean the same to every rank.
struct MemoryRef {
  static constexpr uint64_t kPrivate = 0;  // only its own rank sees it

  uint64_t region = kPrivate;
  uint64_t offset = 0;

  bool is_private() const { return region == kPrivate; }
};

// What one rank shows the others when they meet for an operation.
struct ArenaRecord {
  Signature signature;
  double factor = 1;  // ReduceOp::factor()
  MemoryRef in;
  MemoryRef out;
};

// Sizes at which the patterns change; the same on all ranks.
struct ArenaTuning {
  // Up to this many bytes an operation goes through the payloads: one
  // synchronisation and a copy, instead of two and none.
  size_t one_phase_bytes = 0;
  // Memory that others do not see goes through the stage in windows of this
  // many bytes. 0: there is no stage, because all see all.
  size_t window_bytes = 0;

  // A table: with more ranks the copies that everybody reads cost more than a
  // second synchronisation, and the stages of all should fit the caches.
  static ArenaTuning for_ranks(int ranks, bool with_stage);
};

// An Arena is where ranks that can see each other's memory meet: threads of
// one process, or processes that map the same pages. It is a block of shared
// words; the exchange patterns (arena_patterns.h) are written over it, once.
//
// An operation has two synchronisations:
//
//   arena.meet(record, patience);   // all are here, and mean the same
//   ... read what the others showed, write where they said ...
//   arena.part(patience);           // nobody touches my memory any more
//
// A small operation copies its input into payload() before it meets. Nobody
// reads anything but records and payloads then, which are kept twice, by
// turns, so it need not part. An operation on private memory meets and then
// moves its data through the stages, window by window, with a part() between.
//
// Threads:   one Arena object per rank; one thread at a time calls meet and
//            part, any thread may call fail() and leave().
// Ownership: the block outlives all Arenas on it.
// Errors:    MismatchError on every rank when records differ; TimeoutError
//            names who did not come; PeerError when a rank has left; what
//            another rank's fail() said. After an error the arena stays
//            broken, for all.
class Arena {
 public:
  // One-phase operations put up to this many bytes into payload().
  static constexpr size_t kPayloadBytes = size_t{16} * 1024;
  // Up to this many travel in the cache line that is looked at anyway.
  static constexpr size_t kInlineBytes = 56;
  // Two counts per rank, for all_to_all, must fit into a payload.
  static constexpr int kMostRanks = kPayloadBytes / (2 * sizeof(uint64_t));

  // How large the block must be. Zeroed bytes are a new arena.
  static size_t block_bytes(int size, ArenaTuning tuning);

  Arena(void* block, int rank, int size, WaitPolicy policy, ArenaTuning tuning);
  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const ArenaTuning& tuning() const { return tuning_; }

  void meet(const ArenaRecord& mine, Patience& patience);
  void part(Patience& patience);

  // After meet: `work` on the memory of all, then part. An error of `work`
  // fails the arena.
  void work_and_part(Patience& patience, const std::function<void()>& work);

  // This rank's payload of `bytes` for the coming meeting.
  std::byte* payload(size_t bytes);
  // What `rank` showed at the last meeting.
  const ArenaRecord& record(int rank) const;
  const std::byte* payload(int rank, size_t bytes) const;

  // The stages of a rank: `tuning().window_bytes` each. It alone writes them.
  enum class Stage { kInput0, kInput1, kResult0, kResult1 };
  static constexpr size_t kStages = 4;
  std::byte* stage(int rank, Stage stage) const;

  // Lists for the patterns, kept from one operation to the next.
  struct Lists {
    std::vector<const void*> inputs;
    std::vector<double> factors;
    std::vector<void*> outputs;
  };
  Lists& lists() { return lists_; }

  // Breaks the arena for everybody, with the reason. The first one counts.
  void fail(const Failure& failure) noexcept;
  // The same when `rank` has died, perhaps while it was failing the arena.
  void fail_for_dead(int rank, const Failure& failure) noexcept;

  // Throws what broke the arena, if anything has but a rank that left.
  void check() const;

  // This rank will not come again: others that wait for it learn so at once.
  void leave() noexcept;

  // Memory of this rank, as others will find it, and memory of another rank,
  // as found in its record.
  virtual MemoryRef ref_of(const Buffer& buffer) const = 0;
  virtual std::byte* at(int rank, MemoryRef ref) const = 0;

 protected:
  // Called when part() fails: returns when no other rank can still be writing
  // into this rank's memory. The default waits until all have ended their own
  // work, which is right where ranks are threads: they compute and come.
  virtual void settle();

 private:
  struct Shared;
  struct Card;
  struct Place;
  Place& place(int rank) const;
  void arrive_and_wait(Patience& patience);
  void give_up(uint64_t round, const Patience& patience);
  std::byte* payload_at(int rank, uint64_t meeting, size_t bytes) const;
  [[noreturn]] void throw_failure() const;
  std::vector<int> missing(uint64_t round) const;
  void compare_digests(uint64_t mine) const;

  Shared* const shared_;
  const int rank_;
  const int size_;
  const WaitPolicy policy_;
  const ArenaTuning tuning_;
  uint64_t round_ = 0;     // of the gate
  uint64_t meetings_ = 0;  // its parity chooses the record
  Lists lists_;
};

}  // namespace lockstep

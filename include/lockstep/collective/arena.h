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
  uint64_t region = 0;
  uint64_t offset = 0;
};

// What one rank shows the others when they meet for an operation.
struct ArenaRecord {
  Signature signature;
  double factor = 1;  // ReduceOp::factor()
  MemoryRef in;
  MemoryRef out;
};

// An Arena is where ranks that can see each other's memory meet: threads of
// one process, or processes that map the same pages. It is a block of shared
// words; the exchange patterns (arena_patterns.h) are written over it, once.
//
// An operation has two synchronisations at most:
//
//   arena.meet(record, patience);   // all are here, and mean the same
//   ... read what the others showed, write where they said ...
//   arena.part(patience);           // nobody touches my memory any more
//
// A small operation copies its input into payload() before it meets. Nobody
// reads anything but records and payloads then, which are kept twice, by
// turns, so it need not part.
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
  static constexpr size_t kPayloadBytes = 16 * 1024;
  // Two counts per rank, for all_to_all, must fit into a payload.
  static constexpr int kMostRanks = kPayloadBytes / (2 * sizeof(uint64_t));

  // How large the block must be. Zeroed bytes are a new arena.
  static size_t block_bytes(int size);

  Arena(void* block, int rank, int size, WaitPolicy policy);
  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  void meet(const ArenaRecord& mine, Patience& patience);
  void part(Patience& patience);

  // meet, then `work`, then part; an error of `work` fails the arena.
  void exchange(const ArenaRecord& mine, Patience& patience,
                const std::function<void()>& work);

  // This rank's payload for the coming meeting.
  std::byte* payload();
  // What `rank` showed at the last meeting.
  const ArenaRecord& record(int rank) const;
  const std::byte* payload(int rank) const;

  // Lists for the patterns, kept from one operation to the next.
  struct Lists {
    std::vector<const void*> inputs;
    std::vector<double> factors;
    std::vector<void*> outputs;
  };
  Lists& lists() { return lists_; }

  // Breaks the arena for everybody, with the reason. The first one counts.
  void fail(const Failure& failure) noexcept;

  // This rank will not come again: others that wait for it learn so at once.
  void leave() noexcept;

  // Memory of this rank, as others will find it, and memory of another rank,
  // as found in its record.
  virtual MemoryRef ref_of(const void* data) const = 0;
  virtual std::byte* at(int rank, MemoryRef ref) const = 0;

 protected:
  // Called when part() fails: returns when no other rank can still be writing
  // into this rank's memory. The default waits until all have ended their own
  // work, which is right where ranks are threads: they compute and come.
  virtual void settle();

 private:
  struct Shared;
  struct Place;
  Place& place(int rank) const;
  void arrive_and_wait(Patience& patience);
  void give_up(uint64_t round, const Patience& patience);
  [[noreturn]] void throw_failure() const;
  std::vector<int> missing(uint64_t round) const;
  void compare_records() const;

  Shared* const shared_;
  const int rank_;
  const int size_;
  const WaitPolicy policy_;
  uint64_t round_ = 0;     // of the gate
  uint64_t meetings_ = 0;  // its parity chooses the record
  Lists lists_;
};

}  // namespace lockstep

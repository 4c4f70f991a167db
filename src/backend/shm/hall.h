// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "backend/shm/inbox.h"
#include "backend/shm/memory_file.h"
#include "lockstep/base/bell.h"
#include "lockstep/collective/arena.h"
#include "lockstep/collective/failure.h"
#include "lockstep/comm/backend.h"

namespace lockstep::detail {

// What one rank tells the others about itself, in the hall.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): whole lines
struct HallEntry {
  // Set before the ranks meet for the first time, and never changed.
  int32_t pid;
  int32_t inbox_fd;  // a descriptor of that process; see inbox.h
  uint64_t inbox_cookie;
  cpu_set_t cores;  // which it may use

  alignas(64) std::atomic<uint32_t> left;  // it does not come again
  alignas(64) BellWords bell;  // rung when its transfers may have moved
};

// The hall of a group: the pages that all its ranks map. docs/shm.md shows its
// layout. Rank 0 makes it and names it in the store; the others find out
// whether they live on the same host, and open it through /proc.
//
// Errors: UsageError on all ranks when one of them runs on another host, or
//         there is no store; SystemError on the rank that cannot have the
//         memory, AbortedError with its words on the others; TimeoutError names
//         the ranks that did not come.
class Hall {
 public:
  // `tuning` is asked on rank 0.
  Hall(const GroupPlace& place, const std::function<ArenaTuning()>& tuning);
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;

  int size() const { return size_; }
  const Inbox& inbox() const { return *inbox_; }  // of this rank
  HallEntry& entry(int rank) const;
  // Why all transfers have ended, if they have.
  FailureNote& mail_failure() const;
  // Whether rank `from` has opened its ring in the inbox of rank `to`.
  std::atomic<uint8_t>& ring_open(int from, int to) const;
  void* arena_block() const;
  const ArenaTuning& tuning() const { return tuning_; }

 private:
  struct Header;
  struct Offer;
  static size_t arena_offset(int size);
  size_t bytes() const;
  Offer make(MemoryFile& file);
  void enter(const Offer& offer, const std::function<void()>& look);
  void open(const Offer& offer);

  const int size_;
  ArenaTuning tuning_;
  std::optional<Inbox> inbox_;
  Mapping mapping_;
};

}  // namespace lockstep::detail

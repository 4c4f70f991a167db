// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/bell.h"
#include "lockstep/base/thread.h"
#include "lockstep/comm/backend.h"

namespace lockstep::detail {

// Messages between threads: a box per receiver, with what was sent to it and
// what it asked for. Whoever comes second copies, straight from the sender's
// memory to the receiver's. Small messages do not wait for the receiver: the
// box keeps a copy, and the send is done.
//
// Threads:   any. One mutex guards all; it is held while one message is
//            copied.
// Ownership: the room lives until every transfer made from it is gone.
class Mailroom {
 public:
  // Up to this size a message is kept in the box, and up to this much in all.
  static constexpr size_t kEagerBytes = size_t{64} * 1024;
  static constexpr size_t kMostEagerBytes = size_t{64} * 1024 * 1024;

  explicit Mailroom(int size);

  // Rank `rank` has come; its bell rings when its transfers may have moved.
  void open(int rank, std::shared_ptr<Bell> bell);
  // It has gone: who waits for it hears so. What it sent can still be received.
  void close(int rank) noexcept;
  // Ends all transfers of all ranks; the first reason counts.
  void fail(const Failure& reason) noexcept;
  // Throws why they have ended, if they have, for `rank`.
  void check(int rank);

  std::unique_ptr<Transfer> send(Buffer buffer, int from, int to, uint32_t tag);
  std::unique_ptr<Transfer> recv(Buffer buffer, int from_or_any, int to,
                                 uint32_t tag);

 private:
  struct Item;
  class Handle;
  using Items = std::list<std::shared_ptr<Item>>;

  struct Box {
    Items sent;
    Items asked;
    std::shared_ptr<Bell> bell;
    bool closed = false;
    size_t eager_bytes = 0;
  };

  Box& box(int rank) { return boxes_[static_cast<size_t>(rank)]; }
  void deliver(Item& message, Item& receive);
  void ring(int rank);
  bool test(const Item& item);
  bool withdraw(const std::shared_ptr<Item>& item) noexcept;
  bool can_still_come(const Item& item);

  std::mutex mutex_;
  std::vector<Box> boxes_ LOCKSTEP_GUARDED_BY(mutex_);
  std::optional<Failure> failure_ LOCKSTEP_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};  // failure_ is set
};

}  // namespace lockstep::detail

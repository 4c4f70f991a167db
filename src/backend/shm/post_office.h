// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/shm/hall.h"
#include "backend/shm/inbox.h"
#include "lockstep/base/thread.h"

namespace lockstep::detail {

// Point-to-point messages of one rank. Each pair of ranks has a ring, in the
// receiver's memory. Small messages go through it whole, and the send is done;
// of large ones only an offer, see parcel.h. The receiver takes messages out
// of its rings whenever it looks, and keeps those nobody has asked for yet.
//
// Nothing here has a thread: whoever tests a transfer moves all of this rank's
// messages on, and rings the bells of those who may have been waiting for it.
//
// Threads: any. One mutex guards all; it is held while messages are copied.
class PostOffice {
 public:
  // Up to this size a message goes through the ring.
  static constexpr size_t kSmallBytes = size_t{64} * 1024;
  // How much of what nobody asked for yet is kept, before rings fill up.
  static constexpr size_t kMostKeptBytes = size_t{64} * 1024 * 1024;

  PostOffice(const Hall& hall, int rank);
  ~PostOffice();
  PostOffice(const PostOffice&) = delete;
  PostOffice& operator=(const PostOffice&) = delete;

  std::unique_ptr<Transfer> send(Buffer buffer, int peer, uint32_t tag);
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any, uint32_t tag);

  // `rank` does not come again; what it sent can still be received.
  void close(int rank) noexcept;
  // It has died, perhaps in the middle of something: fail(), and close().
  void close_dead(int rank, const Failure& failure) noexcept;
  // Ends all transfers of all ranks; the first reason counts. Those of this
  // rank touch no memory once this has returned.
  void fail(const Failure& reason) noexcept;
  // Throws why the transfers have ended, if they have.
  void check() const;

 private:
  struct Sending;
  struct Receiving;
  struct Message;
  template <class Item>
  class Handle;

  void ring_bell(int rank) const noexcept;
  void ring_all() const noexcept;
  bool has_left(int peer_or_any) const;
  [[noreturn]] void throw_hopeless(int peer_or_any) const;

  template <class Look>
  void look(int peer_or_any, const bool& done, const Look& look);
  bool test(Sending& sending);
  bool test(Receiving& receiving);
  bool withdraw(const std::shared_ptr<Sending>& sending);
  bool withdraw(const std::shared_ptr<Receiving>& receiving);

  // All of these with the mutex held.
  std::optional<Failure> failure() const;
  void push_out(int peer);
  bool put(Sending& sending);
  void take_in();
  void take_in_from(int peer);
  bool take_one(int peer, Ring& ring);
  bool deliver(Message& message, Receiving& receiving);

  const Hall& hall_;
  const int rank_;

  std::mutex mutex_;
  std::vector<Outlet> outlets_ LOCKSTEP_GUARDED_BY(mutex_);
  // Not in the ring yet, by peer; then asked for, and arrived unasked.
  std::vector<std::deque<std::shared_ptr<Sending>>> waiting_
      LOCKSTEP_GUARDED_BY(mutex_);
  std::list<std::shared_ptr<Receiving>> asked_ LOCKSTEP_GUARDED_BY(mutex_);
  std::list<Message> kept_ LOCKSTEP_GUARDED_BY(mutex_);
  size_t kept_bytes_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  std::optional<Failure> failure_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail

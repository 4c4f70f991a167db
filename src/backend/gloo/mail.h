// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/gloo/board.h"
#include "backend/gloo/messages.h"
#include "backend/gloo/wire.h"
#include "lockstep/base/bell.h"
#include "lockstep/comm/backend.h"

namespace lockstep::detail {

// The messages of one rank: what it has sent, what it has asked for, and what
// has come without having been asked for.
//
// A small message goes out at once as a letter, and its send is done: the
// receiver's side keeps it until it is asked for. A large one is offered, and
// goes out in chunks when the receiver has memory for it. All of it travels on
// the wire, so nothing is lost when a transfer is withdrawn, and no size that
// differs reaches Gloo.
//
// Threads: any. One mutex guards all of it; the wire and the board are used
//          under it, never the reverse.
class Mail {
 public:
  static constexpr size_t kLetterBytes = size_t{64} * 1024;

  Mail(Board& board, std::shared_ptr<Bell> bell);
  ~Mail();
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  // Before anything is sent.
  void attach(Wire& wire) { wire_ = &wire; }

  std::unique_ptr<Transfer> send(Buffer buffer, int peer, uint32_t tag);
  std::unique_ptr<Transfer> recv(Buffer buffer, int peer_or_any, uint32_t tag);

  // For the handler of the wire: a message that is ours, without its first
  // byte; and that the queue to `peer` has become short.
  void on_message(int peer, Word word, ConstBytes body);
  void on_clear(int peer);

  // The group has failed: no transfer touches its memory once this has
  // returned. Call it before the board tells anybody, as those who hear of the
  // failure may free that memory.
  void close() noexcept;

 private:
  struct Outgoing;
  struct Asked;
  struct Incoming;
  class SendHandle;
  class RecvHandle;
  using OutgoingPtr = std::shared_ptr<Outgoing>;
  using AskedPtr = std::shared_ptr<Asked>;

  bool test(const Outgoing& outgoing);
  bool test(const Asked& asked);
  bool withdraw(const OutgoingPtr& outgoing);
  bool withdraw(const AskedPtr& asked);

  void arrive(Incoming incoming);
  void look_for(const AskedPtr& asked);
  bool join(Incoming& incoming, const AskedPtr& asked);
  void add_chunk(int peer, uint64_t id, ConstBytes chunk);
  void retract(int peer, uint64_t id);
  void grant(int peer, uint64_t id, bool wanted);
  void pump(int peer);
  void take_letter(int peer, size_t bytes);

  Board& board_;
  const std::shared_ptr<Bell> bell_;
  Wire* wire_ = nullptr;

  std::mutex mutex_;
  bool closed_ LOCKSTEP_GUARDED_BY(mutex_) = false;
  std::list<OutgoingPtr> outgoing_ LOCKSTEP_GUARDED_BY(mutex_);  // large ones
  std::list<AskedPtr> asked_ LOCKSTEP_GUARDED_BY(mutex_);  // not yet matched
  std::list<Incoming> incoming_ LOCKSTEP_GUARDED_BY(mutex_);
  uint64_t last_id_ LOCKSTEP_GUARDED_BY(mutex_) = 0;
  // Bytes of letters, by peer: sent there and not yet received; received from
  // there and not yet said so.
  std::vector<size_t> unread_ LOCKSTEP_GUARDED_BY(mutex_);
  std::vector<size_t> taken_ LOCKSTEP_GUARDED_BY(mutex_);
};

}  // namespace lockstep::detail

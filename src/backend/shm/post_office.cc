// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/post_office.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/shm/parcel.h"

namespace lockstep::detail {
namespace {

// What stands in a ring, before the bytes of a small message.
struct Frame {
  uint64_t bytes;
  uint32_t tag;
  int32_t parcel_fd;  // -1: the message follows
  uint64_t parcel_cookie;
};

}  // namespace

struct PostOffice::Sending {
  Buffer buffer;
  int peer = 0;
  uint32_t tag = 0;
  std::optional<Parcel> parcel;
  bool done = false;
};

struct PostOffice::Receiving {
  Buffer buffer;
  int peer = kAnyRank;  // whom it wants, then who it was
  uint32_t tag = 0;
  std::string error;
  bool done = false;

  bool accepts(int from, uint32_t with_tag) const {
    return tag == with_tag && (peer == kAnyRank || peer == from);
  }
};

struct PostOffice::Message {
  int from = 0;
  uint32_t tag = 0;
  size_t bytes = 0;
  ByteVector small;
  std::unique_ptr<Parcel> parcel;
};

template <class Item>
class PostOffice::Handle : public Transfer {
 public:
  Handle(PostOffice& office, std::shared_ptr<Item> item)
      : office_(office), item_(std::move(item)) {}
  ~Handle() override { office_.withdraw(item_); }

  bool test() override { return office_.test(*item_); }
  bool withdraw() override { return office_.withdraw(item_); }
  int source() const override { return item_->peer; }

 private:
  PostOffice& office_;
  const std::shared_ptr<Item> item_;
};

PostOffice::PostOffice(const Hall& hall, int rank)
    : hall_(hall),
      rank_(rank),
      outlets_(static_cast<size_t>(hall.size())),
      waiting_(static_cast<size_t>(hall.size())) {}

PostOffice::~PostOffice() = default;

void PostOffice::ring_bell(int rank) const noexcept {
  hall_.entry(rank).bell.ring();
}
void PostOffice::ring_all() const noexcept {
  for (int rank = 0; rank < hall_.size(); ++rank) ring_bell(rank);
}

void PostOffice::close(int rank) noexcept {
  hall_.entry(rank).left.store(1, std::memory_order_release);
  ring_all();
}

void PostOffice::close_dead(int rank, const Failure& failure) noexcept {
  hall_.mail_failure().forget_writer(rank);
  fail(failure);
  close(rank);
}

void PostOffice::fail(const Failure& reason) noexcept {
  hall_.mail_failure().write(reason);
  {
    // Kept here too: a rank that is stopped while it writes there holds up the
    // others. With the lock taken, nobody is copying.
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
  }
  ring_all();
}

std::optional<Failure> PostOffice::failure() const {
  auto told = hall_.mail_failure().read();
  return told ? told : failure_;
}

void PostOffice::check() const {
  if (const auto told = hall_.mail_failure().read()) {
    std::rethrow_exception(error_of(*told, rank_));
  }
}

bool PostOffice::has_left(int peer_or_any) const {
  const auto left = [&](int rank) {
    return hall_.entry(rank).left.load(std::memory_order_acquire) != 0;
  };
  if (peer_or_any != kAnyRank) return left(peer_or_any);
  for (int rank = 0; rank < hall_.size(); ++rank) {
    if (rank != rank_ && !left(rank)) return false;
  }
  return hall_.size() > 1;  // alone, one may still write to oneself
}

void PostOffice::throw_hopeless(int peer_or_any) const {
  throw PeerError(peer_or_any == kAnyRank
                      ? std::string("all other ranks have left the group")
                      : fmt::format("rank {} has left the group", peer_or_any),
                  peer_or_any);
}

std::unique_ptr<Transfer> PostOffice::send(Buffer buffer, int peer,
                                           uint32_t tag) {
  auto sending = std::make_shared<Sending>();
  sending->buffer = buffer;
  sending->peer = peer;
  sending->tag = tag;
  if (buffer.bytes() > kSmallBytes) sending->parcel.emplace(buffer);
  auto handle = std::make_unique<Handle<Sending>>(*this, sending);
  const std::lock_guard lock(mutex_);
  if (!failure() && !has_left(peer)) {  // else test() says so
    waiting_[static_cast<size_t>(peer)].push_back(sending);
    push_out(peer);
  }
  return handle;
}

// In order: a message never overtakes another to the same rank.
void PostOffice::push_out(int peer) {
  auto& queue = waiting_[static_cast<size_t>(peer)];
  bool moved = false;
  while (!queue.empty() && put(*queue.front())) {
    queue.pop_front();
    moved = true;
  }
  if (moved) ring_bell(peer);
}

// False when there is no room now; or nobody to send to, as test() will say.
bool PostOffice::put(Sending& sending) {
  Frame frame{};
  frame.bytes = sending.buffer.bytes();
  frame.tag = sending.tag;
  frame.parcel_fd = sending.parcel ? sending.parcel->fd() : -1;
  frame.parcel_cookie = sending.parcel ? sending.parcel->cookie() : 0;
  ConstBytes body;
  if (!sending.parcel) body = {sending.buffer.data, frame.bytes};
  try {
    Ring& ring = outlets_[static_cast<size_t>(sending.peer)].ring(hall_, rank_,
                                                                  sending.peer);
    if (!ring.write({&frame, sizeof(frame)}, body)) return false;
  } catch (const SystemError& error) {
    if (is_gone(error)) return false;
    throw;
  }
  sending.done = !sending.parcel;
  return true;
}

std::unique_ptr<Transfer> PostOffice::recv(Buffer buffer, int peer_or_any,
                                           uint32_t tag) {
  auto receiving = std::make_shared<Receiving>();
  receiving->buffer = buffer;
  receiving->peer = peer_or_any;
  receiving->tag = tag;
  auto handle = std::make_unique<Handle<Receiving>>(*this, receiving);
  const std::lock_guard lock(mutex_);
  if (failure()) return handle;  // test() says so
  for (auto kept = kept_.begin(); kept != kept_.end() && !receiving->done;) {
    if (!receiving->accepts(kept->from, kept->tag)) {
      ++kept;
      continue;
    }
    kept_bytes_ -= kept->small.size();
    deliver(*kept, *receiving);
    kept = kept_.erase(kept);
  }
  if (!receiving->done) {
    asked_.push_back(receiving);
    take_in();
  }
  return handle;
}

void PostOffice::take_in() {
  for (int i = 1; i <= hall_.size(); ++i) {
    const int peer = (rank_ + i) % hall_.size();
    const auto& open = hall_.ring_open(peer, rank_);
    if (open.load(std::memory_order_acquire) != 0) take_in_from(peer);
  }
}

void PostOffice::take_in_from(int peer) {
  Ring& ring = hall_.inbox().ring(peer);
  bool moved = false;
  while (take_one(peer, ring)) moved = true;
  if (moved) ring_bell(peer);  // it may have waited for room
}

// False when there is nothing, or no room to keep what nobody asked for. A
// message leaves the ring when it is safe elsewhere.
bool PostOffice::take_one(int peer, Ring& ring) {
  Frame frame{};
  if (ring.readable() < sizeof(frame)) return false;
  ring.peek(0, {&frame, sizeof(frame)});
  const size_t body = frame.parcel_fd < 0 ? frame.bytes : 0;
  const auto wanted =
      std::find_if(asked_.begin(), asked_.end(), [&](const auto& receiving) {
        return receiving->accepts(peer, frame.tag);
      });
  if (wanted == asked_.end() && kept_bytes_ + body > kMostKeptBytes) {
    return false;
  }
  Message message;
  message.from = peer;
  message.tag = frame.tag;
  message.bytes = frame.bytes;
  message.small.resize(body);
  ring.peek(sizeof(frame), message.small);
  bool is_there = true;
  if (frame.parcel_fd >= 0) {
    try {
      message.parcel =
          std::make_unique<Parcel>(hall_.entry(peer).pid, frame.parcel_fd,
                                   frame.parcel_cookie, frame.bytes);
    } catch (const SystemError& error) {
      if (!is_gone(error)) throw;
      is_there = false;  // taken back, or its sender is gone
    }
  }
  ring.consume(sizeof(frame) + body);
  if (!is_there) return true;
  if (wanted == asked_.end()) {
    kept_bytes_ += body;
    kept_.push_back(std::move(message));
  } else if (deliver(message, **wanted)) {
    asked_.erase(wanted);
  }
  return true;
}

// False when the sender has taken the message back.
bool PostOffice::deliver(Message& message, Receiving& receiving) {
  if (message.parcel && !message.parcel->take()) return false;
  if (message.bytes == receiving.buffer.bytes()) {
    const std::byte* const data =
        message.parcel ? message.parcel->data() : message.small.data();
    if (message.bytes > 0) {
      std::memcpy(receiving.buffer.data, data, message.bytes);
    }
  } else {
    receiving.error = fmt::format(
        "rank {} sent {} bytes with tag {}, but the receive is for {}; both "
        "sides must have the same size",
        message.from, message.bytes, message.tag, receiving.buffer.bytes());
  }
  receiving.peer = message.from;
  receiving.done = true;
  if (message.parcel) ring_bell(message.from);
  return true;
}

// Whether the peer has left is asked before the rings are looked at: what it
// wrote before leaving is seen then.
template <class Look>
void PostOffice::look(int peer, const bool& done, const Look& look) {
  if (done) return;
  if (const auto ended = failure()) {
    std::rethrow_exception(error_of(*ended, rank_));
  }
  const bool hopeless = has_left(peer);
  look();
  if (!done && hopeless) throw_hopeless(peer);
}

bool PostOffice::test(Sending& sending) {
  const std::lock_guard lock(mutex_);
  const auto taken = [&] {
    return sending.parcel && sending.parcel->was_taken();
  };
  if (taken()) sending.done = true;
  look(sending.peer, sending.done, [&] {
    if (!has_left(sending.peer)) push_out(sending.peer);
    take_in();  // both sides may be waiting for room
    if (taken()) sending.done = true;
  });
  return sending.done;
}

bool PostOffice::test(Receiving& receiving) {
  const std::lock_guard lock(mutex_);
  look(receiving.peer, receiving.done, [&] { take_in(); });
  LOCKSTEP_CHECK(receiving.error.empty(), MismatchError, "{}", receiving.error);
  return receiving.done;
}

bool PostOffice::withdraw(const std::shared_ptr<Sending>& sending) {
  const std::lock_guard lock(mutex_);
  if (sending->done) return false;
  auto& queue = waiting_[static_cast<size_t>(sending->peer)];
  const auto waiting = std::find(queue.begin(), queue.end(), sending);
  if (waiting != queue.end()) {
    queue.erase(waiting);
    return true;
  }
  if (!sending->parcel) return true;  // its peer had left before
  sending->done = !sending->parcel->withdraw();
  return !sending->done;
}

bool PostOffice::withdraw(const std::shared_ptr<Receiving>& receiving) {
  const std::lock_guard lock(mutex_);
  if (receiving->done) return false;
  asked_.remove(receiving);
  return true;
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "backend/local/mailroom.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace lockstep::detail {

// A message or a receive, until it has met its other half.
struct Mailroom::Item {
  bool is_send = false;
  Buffer buffer;
  int from = kAnyRank;  // of a receive: whom it wants, then who it was
  int to = 0;
  uint32_t tag = 0;
  ByteVector kept;  // a copy of a small message
  bool done = false;
  std::string error;  // of a receive, when the sizes differ

  bool accepts(const Item& message) const {
    return tag == message.tag && (from == kAnyRank || from == message.from);
  }
  int owner() const { return is_send ? from : to; }
};

class Mailroom::Handle : public Transfer {
 public:
  Handle(Mailroom& room, std::shared_ptr<Item> item)
      : room_(room), item_(std::move(item)) {}
  ~Handle() override { room_.withdraw(item_); }

  bool test() override { return room_.test(*item_); }
  bool withdraw() override { return room_.withdraw(item_); }
  int source() const override { return item_->from; }

 private:
  Mailroom& room_;
  const std::shared_ptr<Item> item_;
};

Mailroom::Mailroom(int size) : boxes_(static_cast<size_t>(size)) {}

void Mailroom::open(int rank, std::shared_ptr<Bell> bell) {
  const std::lock_guard lock(mutex_);
  box(rank).bell = std::move(bell);
}

void Mailroom::close(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  box(rank).closed = true;
  for (int r = 0; r < static_cast<int>(boxes_.size()); ++r) ring(r);
}

void Mailroom::fail(const Failure& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = reason;
  failed_ = true;
  for (int r = 0; r < static_cast<int>(boxes_.size()); ++r) ring(r);
}

void Mailroom::check(int rank) {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  std::rethrow_exception(error_of(*failure_, rank));
}

void Mailroom::ring(int rank) {
  if (box(rank).bell) box(rank).bell->ring();
}

std::unique_ptr<Transfer> Mailroom::send(Buffer buffer, int from, int to,
                                         uint32_t tag) {
  auto message = std::make_shared<Item>();
  message->is_send = true;
  message->buffer = buffer;
  message->from = from;
  message->to = to;
  message->tag = tag;
  auto handle = std::make_unique<Handle>(*this, message);
  const std::lock_guard lock(mutex_);
  if (failure_) return handle;  // test() says so
  Box& target = box(to);
  const auto match =
      std::find_if(target.asked.begin(), target.asked.end(),
                   [&](const auto& asked) { return asked->accepts(*message); });
  if (match != target.asked.end()) {
    deliver(*message, **match);
    target.asked.erase(match);
    return handle;
  }
  if (target.closed) return handle;  // test() says so
  if (buffer.bytes() <= kEagerBytes &&
      target.eager_bytes + buffer.bytes() <= kMostEagerBytes) {
    message->kept = to_vector({buffer.data, buffer.bytes()});
    message->buffer.data = message->kept.data();
    message->done = true;
    target.eager_bytes += buffer.bytes();
  }
  target.sent.push_back(message);
  return handle;
}

std::unique_ptr<Transfer> Mailroom::recv(Buffer buffer, int from_or_any, int to,
                                         uint32_t tag) {
  auto receive = std::make_shared<Item>();
  receive->buffer = buffer;
  receive->from = from_or_any;
  receive->to = to;
  receive->tag = tag;
  auto handle = std::make_unique<Handle>(*this, receive);
  const std::lock_guard lock(mutex_);
  if (failure_) return handle;
  Box& own = box(to);
  const auto match =
      std::find_if(own.sent.begin(), own.sent.end(),
                   [&](const auto& sent) { return receive->accepts(*sent); });
  if (match == own.sent.end()) {
    own.asked.push_back(receive);
    return handle;
  }
  own.eager_bytes -= (*match)->kept.size();
  deliver(**match, *receive);
  own.sent.erase(match);
  return handle;
}

void Mailroom::deliver(Item& message, Item& receive) {
  const size_t bytes = message.buffer.bytes();
  if (bytes == receive.buffer.bytes()) {
    if (bytes > 0) std::memcpy(receive.buffer.data, message.buffer.data, bytes);
  } else {
    receive.error = fmt::format(
        "rank {} sent {} bytes with tag {}, but the receive is for {}; both "
        "sides must have the same size",
        message.from, bytes, message.tag, receive.buffer.bytes());
  }
  receive.from = message.from;
  message.done = receive.done = true;
  ring(message.from);
  ring(receive.to);
}

// A receive from a rank that has gone is hopeless, and so is a send to it.
bool Mailroom::can_still_come(const Item& item) {
  if (item.is_send) return !box(item.to).closed;
  if (item.from != kAnyRank) return !box(item.from).closed;
  for (int rank = 0; rank < static_cast<int>(boxes_.size()); ++rank) {
    if (rank != item.to && !box(rank).closed) return true;
  }
  return boxes_.size() == 1;  // then only from oneself
}

bool Mailroom::test(const Item& item) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_CHECK(item.error.empty(), MismatchError, "{}", item.error);
  if (item.done) return true;
  if (failure_) std::rethrow_exception(error_of(*failure_, item.owner()));
  if (!can_still_come(item)) {
    const int peer = item.is_send ? item.to : item.from;
    throw PeerError(peer < 0
                        ? std::string("all other ranks have left the group")
                        : fmt::format("rank {} has left the group", peer),
                    peer);
  }
  return false;
}

bool Mailroom::withdraw(const std::shared_ptr<Item>& item) noexcept {
  const std::lock_guard lock(mutex_);
  if (item->done) return false;
  Box& home = box(item->to);
  (item->is_send ? home.sent : home.asked).remove(item);
  return true;
}

}  // namespace lockstep::detail

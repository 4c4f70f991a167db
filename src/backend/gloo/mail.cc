// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/mail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/collective/rank_errors.h"

namespace lockstep::detail {
namespace {

constexpr size_t kChunkBytes = size_t{128} * 1024;
// Letters to a rank that does not read them; then even small messages wait.
constexpr size_t kMostUnread = size_t{64} << 20;
constexpr size_t kReportTaken = size_t{1} << 20;

// A letter costs memory even when it is empty.
size_t weight_of(size_t bytes) { return bytes + 64; }

ByteWriter words(Word word) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(word));
  return writer;
}

}  // namespace

// A large message that is sent.
struct Mail::Outgoing {
  Buffer buffer;
  int to = 0;
  uint64_t id = 0;
  size_t sent = 0;
  bool granted = false;
  bool done = false;
};

// A receive.
struct Mail::Asked {
  Buffer buffer;
  int wanted = kAnyRank;  // from whom
  uint32_t tag = 0;
  uint64_t serial = 0;  // in which order they were posted
  bool done = false;
  int source = kAnyRank;  // who it was
  std::string error;
};

// A message on its way to us, or here and not asked for.
struct Mail::Incoming {
  int from = 0;
  uint32_t tag = 0;
  size_t bytes = 0;
  uint64_t id = 0;     // of a large one; 0: a letter
  size_t arrived = 0;  // of its bytes
  bool granted = false;
  ByteVector kept;  // what has arrived, if nobody has asked for it
  AskedPtr target;  // else

  bool is_whole() const { return arrived == bytes && (id == 0 || granted); }
  std::byte* memory() {
    return target ? static_cast<std::byte*>(target->buffer.data) : kept.data();
  }
  bool suits(const Asked& asked) const {
    return asked.tag == tag &&
           (asked.wanted == kAnyRank || asked.wanted == from);
  }
};

class Mail::SendHandle : public Transfer {
 public:
  SendHandle(Mail& mail, OutgoingPtr outgoing, int rank)
      : mail_(mail), outgoing_(std::move(outgoing)), rank_(rank) {}
  ~SendHandle() override { mail_.withdraw(outgoing_); }

  bool test() override { return mail_.test(*outgoing_); }
  bool withdraw() override { return mail_.withdraw(outgoing_); }
  int source() const override { return rank_; }

 private:
  Mail& mail_;
  const OutgoingPtr outgoing_;
  const int rank_;
};

class Mail::RecvHandle : public Transfer {
 public:
  RecvHandle(Mail& mail, AskedPtr asked)
      : mail_(mail), asked_(std::move(asked)) {}
  ~RecvHandle() override { mail_.withdraw(asked_); }

  bool test() override { return mail_.test(*asked_); }
  bool withdraw() override { return mail_.withdraw(asked_); }
  int source() const override { return asked_->source; }

 private:
  Mail& mail_;
  const AskedPtr asked_;
};

Mail::Mail(Board& board, std::shared_ptr<Bell> bell)
    : board_(board),
      bell_(std::move(bell)),
      unread_(static_cast<size_t>(board.size())),
      taken_(static_cast<size_t>(board.size())) {}

Mail::~Mail() = default;

void Mail::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  outgoing_.clear();
  asked_.clear();
  incoming_.clear();
}

std::unique_ptr<Transfer> Mail::send(Buffer buffer, int peer, uint32_t tag) {
  wire_->read_now();  // an abort that has arrived comes first
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->buffer = buffer;
  outgoing->to = peer;
  auto handle = std::make_unique<SendHandle>(*this, outgoing, board_.rank());
  const std::lock_guard lock(mutex_);
  if (closed_ || board_.has_left(peer)) return handle;  // test() says so
  const size_t bytes = buffer.bytes();
  const ConstBytes content(buffer.data, bytes);
  size_t& unread = unread_[static_cast<size_t>(peer)];
  if (peer == board_.rank()) {
    arrive({peer, tag, bytes, 0, bytes, false, to_vector(content), nullptr});
    outgoing->done = true;
  } else if (bytes <= kLetterBytes && unread + bytes <= kMostUnread) {
    unread += weight_of(bytes);
    wire_->send(peer, words(Word::kLetter).u32(tag).bytes(), content);
    outgoing->done = true;
  } else {
    outgoing->id = ++last_id_;
    outgoing_.push_back(outgoing);
    wire_->send(
        peer,
        words(Word::kOffer).u64(outgoing->id).u32(tag).u64(bytes).bytes());
  }
  return handle;
}

std::unique_ptr<Transfer> Mail::recv(Buffer buffer, int peer_or_any,
                                     uint32_t tag) {
  wire_->read_now();
  auto asked = std::make_shared<Asked>();
  asked->buffer = buffer;
  asked->wanted = peer_or_any;
  asked->tag = tag;
  auto handle = std::make_unique<RecvHandle>(*this, asked);
  const std::lock_guard lock(mutex_);
  asked->serial = ++last_id_;
  if (!closed_) look_for(asked);
  return handle;
}

void Mail::on_message(int peer, Word word, ConstBytes body) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  ByteReader reader(body);
  switch (word) {
    case Word::kLetter: {
      const uint32_t tag = reader.u32();
      const ConstBytes content = reader.raw(reader.remaining());
      arrive({peer, tag, content.size(), 0, content.size(), false,
              to_vector(content), nullptr});
      break;
    }
    case Word::kTaken:
      unread_[static_cast<size_t>(peer)] -= reader.u64();
      break;
    case Word::kOffer: {
      const uint64_t id = reader.u64();
      const uint32_t tag = reader.u32();
      arrive({peer, tag, reader.u64(), id, 0, false, {}, nullptr});
      break;
    }
    case Word::kGrant: {
      const uint64_t id = reader.u64();
      grant(peer, id, reader.u8() != 0);
      break;
    }
    case Word::kChunk: {
      const uint64_t id = reader.u64();
      add_chunk(peer, id, reader.raw(reader.remaining()));
      break;
    }
    case Word::kRetract:
      retract(peer, reader.u64());
      break;
    default:
      break;
  }
}

// Something new is here, or offered.
void Mail::arrive(Incoming incoming) {
  const auto match = std::find_if(
      asked_.begin(), asked_.end(),
      [&](const AskedPtr& asked) { return incoming.suits(*asked); });
  if (match == asked_.end()) {
    incoming_.push_back(std::move(incoming));
    return;
  }
  const AskedPtr asked = *match;
  asked_.erase(match);
  if (!join(incoming, asked)) incoming_.push_back(std::move(incoming));
}

// A receive looks among what has come before it.
void Mail::look_for(const AskedPtr& asked) {
  const auto match = std::find_if(
      incoming_.begin(), incoming_.end(), [&](const Incoming& incoming) {
        return !incoming.target && incoming.suits(*asked);
      });
  if (match == incoming_.end()) {
    // One whose message was taken back stands where it stood before.
    const auto later = std::find_if(
        asked_.begin(), asked_.end(),
        [&](const AskedPtr& other) { return other->serial > asked->serial; });
    asked_.insert(later, asked);
  } else if (join(*match, asked)) {
    incoming_.erase(match);
  }
}

// The two belong together. True when that was all: the receive has ended.
bool Mail::join(Incoming& incoming, const AskedPtr& asked) {
  asked->source = incoming.from;
  const bool fits = incoming.bytes == asked->buffer.bytes();
  if (incoming.id != 0 && !incoming.granted) {
    incoming.granted = true;
    wire_->send(incoming.from,
                words(Word::kGrant).u64(incoming.id).u8(fits ? 1 : 0).bytes());
  }
  if (!fits) {
    asked->error = fmt::format(
        "rank {} sent {} bytes with tag {}, but the receive is for {}; both "
        "sides must have the same size",
        incoming.from, incoming.bytes, incoming.tag, asked->buffer.bytes());
  } else if (incoming.arrived > 0) {
    std::memcpy(asked->buffer.data, incoming.kept.data(), incoming.arrived);
  }
  if (incoming.id == 0) take_letter(incoming.from, incoming.bytes);
  if (!fits || incoming.is_whole()) {
    asked->done = true;
    bell_->ring();
    return true;
  }
  ByteVector().swap(incoming.kept);
  incoming.target = asked;
  return false;
}

void Mail::add_chunk(int peer, uint64_t id, ConstBytes chunk) {
  const auto found = std::find_if(
      incoming_.begin(), incoming_.end(), [&](const Incoming& incoming) {
        return incoming.from == peer && incoming.id == id;
      });
  // Of a size that did not fit: it was on its way when that was found out.
  if (found == incoming_.end() || chunk.empty()) return;
  if (found->arrived + chunk.size() > found->bytes) return;
  std::memcpy(found->memory() + found->arrived, chunk.data(), chunk.size());
  found->arrived += chunk.size();
  if (!found->is_whole() || !found->target) return;
  found->target->done = true;
  incoming_.erase(found);
  bell_->ring();
}

// Its sender has taken it back: who waits for it waits on.
void Mail::retract(int peer, uint64_t id) {
  const auto found = std::find_if(
      incoming_.begin(), incoming_.end(), [&](const Incoming& incoming) {
        return incoming.from == peer && incoming.id == id;
      });
  if (found == incoming_.end()) return;
  const AskedPtr waiting = found->target;
  incoming_.erase(found);
  if (waiting) look_for(waiting);
}

void Mail::grant(int peer, uint64_t id, bool wanted) {
  for (auto it = outgoing_.begin(); it != outgoing_.end(); ++it) {
    if ((*it)->to != peer || (*it)->id != id) continue;
    (*it)->granted = true;
    if (!wanted) {
      (*it)->done = true;
      outgoing_.erase(it);
      bell_->ring();
    }
    break;
  }
  pump(peer);
}

void Mail::on_clear(int peer) {
  const std::lock_guard lock(mutex_);
  pump(peer);
}

// Sends chunks of what is wanted there, while there is room on the wire.
void Mail::pump(int peer) {
  for (auto it = outgoing_.begin(); it != outgoing_.end();) {
    Outgoing& next = **it;
    if (next.to != peer || !next.granted) {
      ++it;
      continue;
    }
    const ConstBytes content(next.buffer.data, next.buffer.bytes());
    while (next.sent < content.size()) {
      if (!wire_->is_clear(peer)) return;
      const size_t length = std::min(kChunkBytes, content.size() - next.sent);
      wire_->send(peer, words(Word::kChunk).u64(next.id).bytes(),
                  content.from(next.sent).first(length));
      next.sent += length;
    }
    next.done = true;
    it = outgoing_.erase(it);
    bell_->ring();
  }
}

void Mail::take_letter(int peer, size_t bytes) {
  if (peer == board_.rank()) return;
  size_t& taken = taken_[static_cast<size_t>(peer)];
  taken += weight_of(bytes);
  if (taken < kReportTaken) return;
  wire_->send(peer, words(Word::kTaken).u64(taken).bytes());
  taken = 0;
}

bool Mail::test(const Outgoing& outgoing) {
  const std::lock_guard lock(mutex_);
  if (outgoing.done) return true;
  board_.check();
  if (board_.has_left(outgoing.to)) {
    throw rank_that_left(outgoing.to);
  }
  return false;
}

bool Mail::test(const Asked& asked) {
  const std::lock_guard lock(mutex_);
  LOCKSTEP_CHECK(asked.error.empty(), MismatchError, "{}", asked.error);
  if (asked.done) return true;
  board_.check();
  if (asked.wanted != kAnyRank && board_.has_left(asked.wanted)) {
    throw rank_that_left(asked.wanted);
  }
  if (asked.wanted == kAnyRank && board_.size() > 1 && board_.have_all_left()) {
    throw PeerError("all other ranks have left the group");
  }
  return false;
}

bool Mail::withdraw(const OutgoingPtr& outgoing) {
  const std::lock_guard lock(mutex_);
  if (outgoing->done) return false;
  const auto found = std::find(outgoing_.begin(), outgoing_.end(), outgoing);
  if (found == outgoing_.end()) return true;
  outgoing_.erase(found);
  wire_->send(outgoing->to, words(Word::kRetract).u64(outgoing->id).bytes());
  return true;
}

// What is on its way comes all the same, and is kept for the next who asks.
bool Mail::withdraw(const AskedPtr& asked) {
  const std::lock_guard lock(mutex_);
  if (asked->done) return false;
  asked_.remove(asked);
  for (Incoming& incoming : incoming_) {
    if (incoming.target != asked) continue;
    incoming.target = nullptr;
    incoming.kept.resize(incoming.bytes);
    if (incoming.arrived == 0) break;
    std::memcpy(incoming.kept.data(), asked->buffer.data, incoming.arrived);
  }
  return true;
}

}  // namespace lockstep::detail

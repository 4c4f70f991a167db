// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/bulk.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backend/gloo/gloo_store.h"
#include "backend/gloo/messages.h"
#include "backend/gloo/signals.h"
#include "lockstep/collective/rank_errors.h"

namespace lockstep::detail {
namespace {

using namespace std::chrono_literals;

// How long the others may take to tell why a connection broke, and to answer.
constexpr auto kHearsay = 1s;
constexpr auto kAnswer = 400ms;
// How long Gloo may take to connect.
constexpr std::chrono::milliseconds kConnect = 10s;

ByteVector word_with(Word word, uint64_t number) {
  ByteWriter writer;
  writer.u8(static_cast<uint8_t>(word)).u64(number);
  return writer.take();
}

}  // namespace

Bulk::Bulk(Board& board, Wire& wire)
    : board_(board),
      wire_(wire),
      sent_(static_cast<size_t>(board.size())),
      received_(sent_.size()),
      confirmed_(sent_.size()) {}

void Bulk::connect(const GroupPlace& place, const GlooDevices& devices,
                   Deadline deadline, const std::function<void()>& look) {
  for (size_t i = 0; i < devices.size(); ++i) {
    auto device = devices[i];
    const auto store = std::make_shared<GlooStore>(
        fmt::format("gloo/mesh/{}/", i), place.store, deadline, [&] {
          look();
          board_.check();
        });
    auto context =
        std::make_shared<gloo::rendezvous::Context>(place.rank, place.size);
    // While it connects Gloo waits five times as long, and nothing ends that.
    // All ranks are here and connected by wire, so it takes no time.
    context->setTimeout(std::clamp<std::chrono::milliseconds>(
        milliseconds_of(deadline) / 5, 1ms, kConnect / 5));
    try {
      const WithoutSigpipe quiet;
      connect_full_mesh(*context, store, device, 0);
    } catch (const TimeoutError& error) {
      // The store names a key, and a time that is what was left of it.
      throw TimeoutError(fmt::format(
          "making the group took longer than {}: {} of {} meshes of "
          "connections were complete; is the timeout too short for this "
          "machine? (the store says: {})",
          to_text(place.timeout), i, devices.size(), error.what()));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      look();
      board_.check();
      const auto silent = silent_ranks();
      throw PeerError(
          fmt::format(
              "cannot connect to all ranks{}: {}",
              silent.empty() ? "" : "; no answer from " + ranks_text(silent),
              error.what()),
          silent.empty() ? -1 : silent.front());
    }
    const std::lock_guard lock(mutex_);
    contexts_.push_back(std::move(context));
  }
}

Bulk::~Bulk() { close(); }

void Bulk::run(uint64_t sequence, Patience& patience,
               const std::function<void()>& action) {
  const WithoutSigpipe quiet;
  std::string what;
  try {
    sequence_ = sequence;
    // A rank alone has none, and uses none.
    if (!contexts_.empty()) current_ = &contexts_[sequence % contexts_.size()];
    waiting_for_ = -1;
    set_running_until(patience.deadline());
    action();
    if (set_running_until(std::nullopt)) return confirm();
    what = "closed at the last moment";
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  }
  close();
  explain(patience, what);
}

// False when the mesh has been closed.
bool Bulk::set_running_until(std::optional<Deadline> deadline) {
  if (deadline && board_.size() > 1) wire_.set_alarm(*deadline);
  const std::lock_guard lock(mutex_);
  running_until_ = deadline;
  return !closed_;
}

void Bulk::close_if_late() noexcept {
  const std::lock_guard lock(mutex_);
  if (running_until_ && running_until_->passed()) close_locked();
}

void Bulk::confirm() {
  for (size_t peer = 0; peer < received_.size(); ++peer) {
    if (received_[peer] == confirmed_[peer]) continue;
    confirmed_[peer] = received_[peer];
    wire_.send(static_cast<int>(peer),
               word_with(Word::kReceived, received_[peer]));
  }
}

void Bulk::count_all() {
  for (size_t peer = 0; peer < sent_.size(); ++peer) {
    if (static_cast<int>(peer) == board_.rank()) continue;
    ++sent_[peer];
    ++received_[peer];
  }
}

void Bulk::wait_received(Deadline deadline) {
  board_.wait_received(sent_, deadline);
}

Bulk::Piece Bulk::send(int peer, uint32_t slot, ConstBytes bytes) {
  Piece piece;
  if (bytes.empty()) return piece;
  piece.peer_ = peer;
  piece.is_send_ = true;
  // Gloo reads only, though its type does not say so.
  piece.buffer_ = context()->createUnboundBuffer(
      const_cast<std::byte*>(bytes.data()), bytes.size());
  piece.buffer_->send(peer, slot_of(slot));
  ++sent_[static_cast<size_t>(peer)];
  return piece;
}

Bulk::Piece Bulk::recv(int peer, uint32_t slot, Bytes bytes) {
  Piece piece;
  if (bytes.empty()) return piece;
  piece.peer_ = peer;
  piece.buffer_ = context()->createUnboundBuffer(bytes.data(), bytes.size());
  piece.buffer_->recv(peer, slot_of(slot));
  return piece;
}

void Bulk::finish(Piece& piece, Patience& patience) {
  if (!piece.buffer_) return;
  waiting_for_ = piece.peer_;
  const auto time = milliseconds_of(patience.deadline());
  if (piece.is_send_) {
    piece.buffer_->waitSend(time);
  } else {
    piece.buffer_->waitRecv(time);
    ++received_[static_cast<size_t>(piece.peer_)];
  }
  piece.buffer_.reset();
}

void Bulk::finish(std::vector<Piece>& pieces, Patience& patience) {
  for (Piece& piece : pieces) finish(piece, patience);
  pieces.clear();
}

std::chrono::milliseconds Bulk::milliseconds_of(Deadline deadline) {
  constexpr std::chrono::hours kLongest(24 * 30);
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::min<Deadline::Duration>(deadline.remaining(), kLongest));
}

// Gloo tells of an address, or that time is over. The others may know more; and
// who does not even answer is the one.
void Bulk::explain(Patience& patience, const std::string& what) {
  wire_.read_now();  // it may be waiting there why
  board_.check();
  const bool is_late = patience.deadline().passed();
  if (!is_late) board_.check_soon(Deadline::in(kHearsay));
  auto silent = silent_ranks();
  board_.check();
  if (silent.empty() && waiting_for_ >= 0) silent = {waiting_for_};
  const std::string named = silent.empty() ? "the others" : ranks_text(silent);
  const int first = silent.empty() ? -1 : silent.front();
  if (!is_late) {
    throw PeerError(fmt::format("the connection to {} broke: {}", named, what),
                    first);
  }
  TimeoutError error(fmt::format(
      "timed out after {} in the middle of the data, waiting for {}; is it "
      "still running, and is the time long enough for its network?",
      to_text(patience.timeout()), named));
  ErrorContext context;
  context.peer = first;
  error.add_context(context);
  throw error;
}

std::vector<int> Bulk::silent_ranks() {
  const uint64_t question = board_.new_question();
  wire_.send_all(word_with(Word::kQuestion, question));
  return board_.silent(question, Deadline::in(kAnswer));
}

// A wait of Gloo's that times out closes all connections of its context and
// wakes all who wait on it, here and there. Nothing else does both.
void Bulk::close() noexcept {
  const std::lock_guard lock(mutex_);
  close_locked();
}

void Bulk::close_locked() noexcept {
  const WithoutSigpipe quiet;
  if (std::exchange(closed_, true)) return;
  for (const auto& context : contexts_) {
    try {
      char nothing = 0;
      context->createUnboundBuffer(&nothing, 1)->waitRecv(0ms);
    } catch (const std::exception&) {
      // As intended.
    }
  }
}

}  // namespace lockstep::detail

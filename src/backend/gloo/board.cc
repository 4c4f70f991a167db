// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/board.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "lockstep/collective/rank_errors.h"

namespace lockstep::detail {

Board::Board(int rank, int size)
    : rank_(rank), size_(size), peers_(static_cast<size_t>(size)) {}

// The other ranks of which something is true.
template <class Matches>
std::vector<int> Board::ranks_where(const Matches& matches) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (matches(peers_[static_cast<size_t>(rank)])) ranks.push_back(rank);
  }
  return ranks;
}

bool Board::fail(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    failure_ = failure;
  }
  changed_.notify_all();
  return true;
}

bool Board::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

void Board::check_locked() const {
  if (failure_) std::rethrow_exception(error_of(*failure_, rank_));
}

void Board::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void Board::check_soon(Deadline deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.time(),
                      [&] { return failure_.has_value(); });
  check_locked();
}

void Board::leave(int peer) {
  {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<size_t>(peer)].left = true;
  }
  changed_.notify_all();
}

bool Board::has_left(int peer) const {
  const std::lock_guard lock(mutex_);
  return peers_[static_cast<size_t>(peer)].left;
}

bool Board::have_all_left() const {
  const std::lock_guard lock(mutex_);
  return ranks_where([](const Peer& peer) { return !peer.left; }).empty();
}

void Board::Part::add(ConstBytes more) {
  LOCKSTEP_CHECK(more.size() <= bytes.size() - arrived, PeerError,
                 "more of a message than was announced");
  if (!more.empty()) {
    std::memcpy(bytes.data() + arrived, more.data(), more.size());
  }
  arrived += more.size();
}

void Board::begin_part(int peer, size_t bytes, ConstBytes first) {
  const std::lock_guard lock(mutex_);
  auto& parts = peers_[static_cast<size_t>(peer)].parts;
  parts.push_back({ByteVector(bytes), 0});
  parts.back().add(first);
  if (parts.back().is_whole()) changed_.notify_all();
}

void Board::add_to_part(int peer, ConstBytes more) {
  const std::lock_guard lock(mutex_);
  auto& parts = peers_[static_cast<size_t>(peer)].parts;
  LOCKSTEP_CHECK(!parts.empty(), PeerError, "the rest of no message");
  parts.back().add(more);
  if (parts.back().is_whole()) changed_.notify_all();
}

std::vector<ByteVector> Board::take_parts(Patience& patience,
                                          Failures failures) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto missing =
        ranks_where([](const Peer& peer) { return !peer.has_part(); });
    if (failures == Failures::kAll) check_locked();
    if (missing.empty()) break;
    for (const int peer : missing) {
      if (!peers_[static_cast<size_t>(peer)].left) continue;
      check_locked();
      throw rank_that_left(peer);
    }
    if (patience.deadline().passed()) {
      throw late_ranks(patience.timeout(), missing);
    }
    if (changed_.wait_until(lock, patience.wake_at().time()) ==
        std::cv_status::timeout) {
      lock.unlock();  // it may log
      patience.still_waiting(missing);
      lock.lock();
    }
  }
  std::vector<ByteVector> parts(peers_.size());
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (static_cast<int>(rank) == rank_) continue;
    parts[rank] = std::move(peers_[rank].parts.front().bytes);
    peers_[rank].parts.pop_front();
  }
  return parts;
}

void Board::set_received(int peer, uint64_t count) {
  {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<size_t>(peer)].received = count;
  }
  changed_.notify_all();
}

void Board::wait_received(const std::vector<uint64_t>& counts,
                          Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.time(), [&] {
    if (failure_) return true;
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (static_cast<int>(rank) == rank_ || peers_[rank].left) continue;
      if (peers_[rank].received < counts[rank]) return false;
    }
    return true;
  });
}

uint64_t Board::new_question() {
  const std::lock_guard lock(mutex_);
  return ++questions_;
}

void Board::answer(int peer, uint64_t question) {
  {
    const std::lock_guard lock(mutex_);
    peers_[static_cast<size_t>(peer)].answered = question;
  }
  changed_.notify_all();
}

std::vector<int> Board::silent(uint64_t question, Deadline deadline) {
  std::unique_lock lock(mutex_);
  std::vector<int> ranks;
  changed_.wait_until(lock, deadline.time(), [&] {
    ranks = ranks_where([&](const Peer& peer) {
      return !peer.left && peer.answered < question;
    });
    return ranks.empty();
  });
  return ranks;
}

}  // namespace lockstep::detail

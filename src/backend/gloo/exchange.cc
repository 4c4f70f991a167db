// SPDX-License-Identifier: Apache-2.0
#include "backend/gloo/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "backend/gloo/messages.h"
#include "lockstep/collective/rank_errors.h"

namespace lockstep::detail {
namespace {

// What stands before the payload of a part. Ranks run the same version, on
// machines of the same kind.
struct PartHead {
  Signature signature;
  uint64_t step = 0;
  uint64_t bytes = 0;  // how much this rank has for that one
  double factor = 1;
};

PartHead head_of(const ByteVector& message) {
  PartHead head;
  LOCKSTEP_CHECK(message.size() >= sizeof(head), PeerError,
                 "another rank sent a message that makes no sense");
  std::memcpy(static_cast<void*>(&head), message.data(), sizeof(head));
  return head;
}

// The other side can work on the first while the next is on its way.
constexpr size_t kFrameBytes = size_t{64} * 1024;

}  // namespace

ConstBytes Exchange::Parts::payload(int peer) const {
  return ConstBytes(messages_[static_cast<size_t>(peer)])
      .from(sizeof(PartHead));
}

size_t Exchange::Parts::bytes(int peer) const {
  return head_of(messages_[static_cast<size_t>(peer)]).bytes;
}

std::vector<double> Exchange::Parts::factors(const CollectiveOp& own,
                                             int rank) const {
  std::vector<double> factors(messages_.size(), own.reduce.factor());
  for (size_t peer = 0; peer < messages_.size(); ++peer) {
    if (static_cast<int>(peer) == rank) continue;
    factors[peer] = head_of(messages_[peer]).factor;
  }
  return factors;
}

Exchange::Parts Exchange::talk(const CollectiveOp& op, uint32_t step,
                               Patience& patience,
                               const std::vector<ConstBytes>& to) {
  return talk_shortly(op, step, patience, to, SIZE_MAX);
}

void Exchange::meet(Patience& patience) {
  ByteWriter nothing;
  nothing.u8(static_cast<uint8_t>(Word::kPart)).u64(0);
  wire_.send_all(nothing.bytes());
  board_.take_parts(patience, Board::Failures::kOfTheMissing);
}

// Who does not even answer holds up those who are only late.
std::vector<ByteVector> Exchange::take_parts(Patience& patience) {
  try {
    return board_.take_parts(patience);
  } catch (const TimeoutError&) {
    // Another rank may have named somebody while this one was stopped.
    wire_.read_now();
    board_.check();
    const auto silent = bulk_.silent_ranks();
    if (silent.empty()) throw;
    throw late_ranks(patience.timeout(), silent);
  }
}

// Leaves out what is longer than `most`.
Exchange::Parts Exchange::talk_shortly(const CollectiveOp& op, uint32_t step,
                                       Patience& patience,
                                       const std::vector<ConstBytes>& to,
                                       size_t most) {
  PartHead own;
  own.signature = op.signature;
  own.step = step;
  own.factor = op.reduce.factor();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    ConstBytes payload = to[static_cast<size_t>(peer)];
    own.bytes = payload.size();
    if (payload.size() > most) payload = ConstBytes();
    ByteWriter opening;
    opening.u8(static_cast<uint8_t>(Word::kPart));
    opening.u64(sizeof(own) + payload.size());
    opening.raw(ConstBytes(&own, sizeof(own)));
    const size_t first = std::min(payload.size(), kFrameBytes);
    wire_.send(peer, opening.bytes(), payload.first(first));
    for (size_t sent = first; sent < payload.size(); sent += kFrameBytes) {
      const size_t next = std::min(payload.size() - sent, kFrameBytes);
      const auto more = static_cast<std::byte>(Word::kMore);
      wire_.send(peer, ConstBytes(&more, 1), payload.from(sent).first(next));
    }
  }
  Parts parts;
  parts.messages_ = take_parts(patience);
  bool agree = true;
  std::vector<Signature> said(static_cast<size_t>(size()), op.signature);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const PartHead head = head_of(parts.messages_[static_cast<size_t>(peer)]);
    said[static_cast<size_t>(peer)] = head.signature;
    agree = agree && head.signature == op.signature && head.step == step;
  }
  if (!agree) throw_mismatch(said);
  return parts;
}

void Exchange::move(const CollectiveOp& op, uint32_t step, Patience& patience,
                    const std::vector<ConstBytes>& to,
                    const std::vector<Bytes>& from) {
  const Parts parts = talk_shortly(op, step, patience, to, tuning_.short_bytes);
  bool has_long = false;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const Bytes target = from[static_cast<size_t>(peer)];
    has_long =
        has_long || is_long(target) || is_long(to[static_cast<size_t>(peer)]);
    const size_t bytes = parts.bytes(peer);
    LOCKSTEP_CHECK(bytes == target.size(), MismatchError,
                   "rank {} has {} bytes for rank {}, which expects {}", peer,
                   bytes, rank(), target.size());
    if (target.empty() || is_long(target)) continue;
    std::memcpy(target.data(), parts.payload(peer).data(), target.size());
  }
  if (!has_long) return;
  bulk_.run(op.signature.sequence, patience, [&] {
    std::vector<Bulk::Piece> pieces;
    for (int peer = 0; peer < size(); ++peer) {
      const Bytes target = from[static_cast<size_t>(peer)];
      if (peer == rank() || !is_long(target)) continue;
      pieces.push_back(bulk_.recv(peer, step, target));
    }
    for (int peer = 0; peer < size(); ++peer) {
      const ConstBytes source = to[static_cast<size_t>(peer)];
      if (peer == rank() || !is_long(source)) continue;
      pieces.push_back(bulk_.send(peer, step, source));
    }
    bulk_.finish(pieces, patience);
  });
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <fmt/format.h>

#include "backend/gloo/collectives.h"

namespace lockstep::detail {
namespace {

// What a rank gives to itself. The two are the same memory, or apart.
void copy_own(Bytes to, ConstBytes from) {
  if (to.data() == from.data() || to.empty()) return;
  std::memcpy(to.data(), from.data(), to.size());
}

// Cut into slices, one for each rank, which they then give to each other: the
// root sends everything once, and not once per rank.
void broadcast_in_slices(const GlooStep& step) {
  const Buffer& data = step.op.out;
  const auto slice = [&](int rank) {
    return bytes_of(data, slice_of(data.count, data.dtype, rank, step.size()));
  };
  const int root = step.op.root;
  auto to = step.nothing_to_send();
  auto from = step.nothing_to_receive();
  if (step.rank() == root) {
    for (int peer = 0; peer < step.size(); ++peer) to[at(peer)] = slice(peer);
  } else {
    from[at(root)] = slice(step.rank());
  }
  step.exchange.move(step.op, 0, step.patience, to, from);
  to = step.nothing_to_send();
  from = step.nothing_to_receive();
  for (int peer = 0; peer < step.size(); ++peer) {
    if (peer != root) to[at(peer)] = slice(step.rank());
    if (step.rank() != root) from[at(peer)] = slice(peer);
  }
  step.exchange.move(step.op, 1, step.patience, to, from);
}

// Every rank shows all others both its lists.
void compare_splits(const GlooStep& step) {
  using Lists = std::vector<uint64_t>;
  Lists own(step.op.in_counts.begin(), step.op.in_counts.end());
  own.insert(own.end(), step.op.out_counts.begin(), step.op.out_counts.end());
  const ConstBytes shown(own.data(), own.size() * sizeof(uint64_t));
  const auto parts =
      step.exchange.talk(step.op, 0, step.patience,
                         std::vector<ConstBytes>(at(step.size()), shown));
  std::vector<Lists> lists(at(step.size()), own);
  for (int peer = 0; peer < step.size(); ++peer) {
    if (peer == step.rank()) continue;
    const ConstBytes theirs = parts.payload(peer);
    LOCKSTEP_CHECK(theirs.size() == shown.size(), PeerError,
                   "rank {} sent lists of another length", peer);
    std::memcpy(lists[at(peer)].data(), theirs.data(), theirs.size());
  }
  check_splits(
      step.size(), [&](int from, int to) { return lists[at(from)][at(to)]; },
      [&](int by, int from) {
        return lists[at(by)][at(step.size()) + at(from)];
      });
}

}  // namespace

void broadcast(const GlooStep& step) {
  const Bytes data = bytes_of(step.op.out);
  if (step.size() > 2 && data.size() > step.exchange.tuning().short_bytes) {
    return broadcast_in_slices(step);
  }
  auto to = step.nothing_to_send();
  auto from = step.nothing_to_receive();
  if (step.rank() == step.op.root) {
    to.assign(to.size(), data);
  } else {
    from[at(step.op.root)] = data;
  }
  step.exchange.move(step.op, 0, step.patience, to, from);
}

void all_gather(const GlooStep& step) {
  const std::vector<ConstBytes> to(at(step.size()), bytes_of(step.op.in));
  auto from = step.nothing_to_receive();
  for (int peer = 0; peer < step.size(); ++peer) {
    from[at(peer)] = bytes_of(step.op.out, step.out_part(peer));
  }
  step.exchange.move(step.op, 0, step.patience, to, from);
  copy_own(from[at(step.rank())], bytes_of(step.op.in));
}

void gather(const GlooStep& step) {
  auto to = step.nothing_to_send();
  auto from = step.nothing_to_receive();
  const int root = step.op.root;
  if (step.rank() == root) {
    for (int peer = 0; peer < step.size(); ++peer) {
      from[at(peer)] = bytes_of(step.op.out, step.out_part(peer));
    }
  } else {
    to[at(root)] = bytes_of(step.op.in);
  }
  step.exchange.move(step.op, 0, step.patience, to, from);
  if (step.rank() == root) {
    copy_own(from[at(root)], bytes_of(step.op.in));
  }
}

void scatter(const GlooStep& step) {
  auto to = step.nothing_to_send();
  auto from = step.nothing_to_receive();
  const int root = step.op.root;
  if (step.rank() == root) {
    for (int peer = 0; peer < step.size(); ++peer) {
      to[at(peer)] = bytes_of(step.op.in, step.in_part(peer));
    }
  } else {
    from[at(root)] = bytes_of(step.op.out);
  }
  step.exchange.move(step.op, 0, step.patience, to, from);
  if (step.rank() == root) copy_own(bytes_of(step.op.out), to[at(root)]);
}

void all_to_all(const GlooStep& step) {
  const bool has_lists = !step.op.in_counts.empty();
  if (has_lists) compare_splits(step);
  auto to = step.nothing_to_send();
  auto from = step.nothing_to_receive();
  for (int peer = 0; peer < step.size(); ++peer) {
    to[at(peer)] = bytes_of(step.op.in, step.in_part(peer));
    from[at(peer)] = bytes_of(step.op.out, step.out_part(peer));
  }
  step.exchange.move(step.op, has_lists ? 1 : 0, step.patience, to, from);
  copy_own(from[at(step.rank())], to[at(step.rank())]);
}

void barrier(const GlooStep& step) {
  step.exchange.talk(step.op, 0, step.patience, step.nothing_to_send());
}

}  // namespace lockstep::detail

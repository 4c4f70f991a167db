// SPDX-License-Identifier: Apache-2.0
// Reductions. All of them combine the ranks' elements in the order of ranks, as
// on every other backend, so results have the same bits: each rank reduces one
// slice, from what all others send it, and gives the result to who wants it.
#include <algorithm>
#include <cstring>
#include <functional>

#include "backend/gloo/collectives.h"
#include "lockstep/collective/reduce.h"

namespace lockstep::detail {
namespace {

// Long slices travel in windows: while one is being reduced the next are on
// their way.
constexpr size_t kWindowsAhead = 2;

// What a long reduction does with the slices.
struct Slices {
  std::function<Part(int rank)> of;  // of the input, by who reduces it
  Buffer result;                     // of this rank's slice
  // Where all results belong together, and who gets them all; or nobody.
  Buffer whole;
  std::function<bool(int rank)> wants_all;
};

// In whole cache lines, and at least one.
size_t longest_slice(const GlooStep& step, const Slices& slices) {
  size_t longest = 1;
  for (int rank = 0; rank < step.size(); ++rank) {
    longest = std::max(longest, slices.of(rank).count);
  }
  return (longest * size_of(step.op.in.dtype) + 63) / 64 * 64;
}

class WindowedReduction {
 public:
  WindowedReduction(const GlooStep& step, const Exchange::Parts& parts,
                    const Slices& slices)
      : step_(step),
        bulk_(step.exchange.bulk()),
        slices_(slices),
        factors_(parts.factors(step.op, step.rank())),
        window_bytes_(std::min(step.exchange.tuning().window_bytes,
                               longest_slice(step, slices))),
        window_count_(window_bytes_ / size_of(step.op.in.dtype)),
        staging_(kWindowsAhead * at(step.size()) * window_bytes_) {}

  void run() {
    size_t windows = 0;
    for (int rank = 0; rank < step_.size(); ++rank) {
      const size_t count = slices_.of(rank).count;
      windows = std::max(windows, (count + window_count_ - 1) / window_count_);
    }
    for (size_t w = 0; w < std::min(windows, kWindowsAhead); ++w) post(w);
    for (size_t w = 0; w < windows; ++w) {
      reduce_window(w);
      if (w + kWindowsAhead < windows) post(w + kWindowsAhead);
    }
    bulk_.finish(results_, step_.patience);
    bulk_.finish(sends_, step_.patience);
  }

 private:
  // Window `w` of the slice of `rank`, in elements of the input.
  Part window(int rank, size_t w) const {
    const Part slice = slices_.of(rank);
    const size_t begin = std::min(w * window_count_, slice.count);
    return {slice.offset + begin, std::min(window_count_, slice.count - begin)};
  }
  std::byte* staged(size_t w, int peer) {
    return staging_.data() +
           ((w % kWindowsAhead) * at(step_.size()) + at(peer)) * window_bytes_;
  }
  static uint32_t slot(size_t w, bool is_result) {
    return static_cast<uint32_t>(2 * w + (is_result ? 1 : 0));
  }

  // Others' elements of our window come here, ours of theirs go there.
  void post(size_t w) {
    const Part mine = window(step_.rank(), w);
    const size_t bytes = mine.count * size_of(step_.op.in.dtype);
    auto& inputs = inputs_[w % kWindowsAhead];
    inputs.clear();
    for_peers([&](int peer) {
      inputs.push_back(
          bulk_.recv(peer, slot(w, false), Bytes(staged(w, peer), bytes)));
      if (slices_.wants_all && slices_.wants_all(step_.rank())) {
        results_.push_back(bulk_.recv(
            peer, slot(w, true), bytes_of(slices_.whole, window(peer, w))));
      }
    });
    for_peers([&](int peer) {
      sends_.push_back(bulk_.send(peer, slot(w, false),
                                  bytes_of(step_.op.in, window(peer, w))));
    });
  }

  void reduce_window(size_t w) {
    bulk_.finish(inputs_[w % kWindowsAhead], step_.patience);
    const Part mine = window(step_.rank(), w);
    if (mine.count == 0) return;
    const Buffer own = step_.op.in.slice(mine.offset, mine.count);
    std::vector<const void*> inputs;
    inputs.reserve(at(step_.size()));
    for (int rank = 0; rank < step_.size(); ++rank) {
      inputs.push_back(rank == step_.rank() ? own.data : staged(w, rank));
    }
    const size_t begin = mine.offset - slices_.of(step_.rank()).offset;
    const Buffer result = slices_.result.slice(begin, mine.count);
    void* const output = result.data;
    reduce({step_.op.reduce.kind(), own.dtype, factors_.data()}, inputs.data(),
           step_.size(), &output, 1, mine.count);
    for_peers([&](int peer) {
      if (!slices_.wants_all || !slices_.wants_all(peer)) return;
      sends_.push_back(bulk_.send(peer, slot(w, true), bytes_of(result)));
    });
  }

  // Beginning with the next rank, so that not all send to the same at once.
  template <class Action>
  void for_peers(const Action& action) {
    for (int i = 1; i < step_.size(); ++i) {
      action((step_.rank() + i) % step_.size());
    }
  }

  const GlooStep& step_;
  Bulk& bulk_;
  const Slices& slices_;
  const std::vector<double> factors_;
  const size_t window_bytes_;
  const size_t window_count_;  // the same in elements
  ByteVector staging_;
  std::array<std::vector<Bulk::Piece>, kWindowsAhead> inputs_;
  std::vector<Bulk::Piece> results_;
  std::vector<Bulk::Piece> sends_;
};

void reduce_in_windows(const GlooStep& step, const Slices& slices) {
  const auto parts =
      step.exchange.talk(step.op, 0, step.patience, step.nothing_to_send());
  step.exchange.bulk().run(step.op.signature.sequence, step.patience, [&] {
    WindowedReduction(step, parts, slices).run();
  });
}

// Everybody who wants a result gets all of the input for it, on the wire. `own`
// is this rank's share of the input for `result`.
void reduce_at_once(const GlooStep& step, const std::vector<ConstBytes>& to,
                    const Buffer& own, const Buffer& result) {
  const auto parts = step.exchange.talk(step.op, 0, step.patience, to);
  if (result.count == 0) return;
  std::vector<const void*> inputs;
  inputs.reserve(at(step.size()));
  for (int rank = 0; rank < step.size(); ++rank) {
    inputs.push_back(rank == step.rank() ? own.data
                                         : parts.payload(rank).data());
  }
  const auto factors = parts.factors(step.op, step.rank());
  void* const output = result.data;
  reduce({step.op.reduce.kind(), own.dtype, factors.data()}, inputs.data(),
         step.size(), &output, 1, result.count);
}

// Slices of equal length, which belong to nobody before.
Part even_slice(const GlooStep& step, int rank) {
  return slice_of(step.op.in.count, step.op.in.dtype, rank, step.size());
}

// Each reduces a slice and gives it to all, on the wire.
void all_reduce_in_slices(const GlooStep& step) {
  const CollectiveOp& op = step.op;
  const Part mine = even_slice(step, step.rank());
  const Buffer result = op.out.slice(mine.offset, mine.count);
  auto to = step.nothing_to_send();
  auto from = step.nothing_to_receive();
  for (int rank = 0; rank < step.size(); ++rank) {
    to[at(rank)] = bytes_of(op.in, even_slice(step, rank));
    from[at(rank)] = bytes_of(op.out, even_slice(step, rank));
  }
  reduce_at_once(step, to, op.in.slice(mine.offset, mine.count), result);
  to.assign(to.size(), bytes_of(result));
  step.exchange.move(op, 1, step.patience, to, from);
}

}  // namespace

void all_reduce(const GlooStep& step, GlooAlgorithm algorithm) {
  const CollectiveOp& op = step.op;
  const ConstBytes in = bytes_of(op.in);
  const size_t most = step.exchange.tuning().short_bytes;
  // One step in place of two, as long as the bytes are not many more.
  if (in.size() <= most / 2 / at(step.size())) {
    return reduce_at_once(step, std::vector<ConstBytes>(at(step.size()), in),
                          op.in, op.out);
  }
  if (in.size() <= most * at(step.size())) {
    return all_reduce_in_slices(step);
  }
  if (algorithm != GlooAlgorithm::kDirect && can_reduce_natively(op)) {
    return all_reduce_natively(step, algorithm);
  }
  const Part mine = even_slice(step, step.rank());
  Slices slices;
  slices.of = [&](int rank) { return even_slice(step, rank); };
  slices.result = op.out.slice(mine.offset, mine.count);
  slices.whole = op.out;
  slices.wants_all = [](int) { return true; };
  reduce_in_windows(step, slices);
}

void reduce_to_root(const GlooStep& step) {
  const CollectiveOp& op = step.op;
  const bool is_root = step.rank() == op.root;
  if (op.in.bytes() <= step.exchange.tuning().short_bytes) {
    auto to = step.nothing_to_send();
    if (!is_root) to[at(op.root)] = bytes_of(op.in);
    return reduce_at_once(step, to, op.in, is_root ? op.out : Buffer{});
  }
  const Part mine = even_slice(step, step.rank());
  ByteVector own_slice;
  Slices slices;
  slices.of = [&](int rank) { return even_slice(step, rank); };
  if (is_root) {
    slices.whole = op.out;
    slices.result = op.out.slice(mine.offset, mine.count);
  } else {
    own_slice.resize(mine.count * size_of(op.in.dtype));
    slices.result = {own_slice.data(), mine.count, op.in.dtype};
  }
  slices.wants_all = [&](int rank) { return rank == op.root; };
  reduce_in_windows(step, slices);
}

void reduce_scatter(const GlooStep& step) {
  const CollectiveOp& op = step.op;
  size_t longest = 0;
  auto to = step.nothing_to_send();
  for (int rank = 0; rank < step.size(); ++rank) {
    to[at(rank)] = bytes_of(op.in, step.in_part(rank));
    longest = std::max(longest, to[at(rank)].size());
  }
  if (longest <= step.exchange.tuning().short_bytes) {
    const Part mine = step.in_part(step.rank());
    return reduce_at_once(step, to, op.in.slice(mine.offset, mine.count),
                          op.out);
  }
  Slices slices;
  slices.of = [&](int rank) { return step.in_part(rank); };
  slices.result = op.out;
  reduce_in_windows(step, slices);
}

}  // namespace lockstep::detail

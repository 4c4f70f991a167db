// SPDX-License-Identifier: Apache-2.0
// The patterns for memory that only its own rank sees. Each rank copies what
// others need into its stage, a window at a time; there they read it. While
// one window is being combined the next is being copied in, and the one before
// copied out: a synchronisation per window, and every copy stays in the cache.
//
// A stage is rewritten two windows later, with two synchronisations between, or
// by the next operation, after its meeting. So nobody needs to part in the end.
#include <algorithm>
#include <functional>
#include <initializer_list>

#include "collective/arena_steps.h"

namespace lockstep::detail {
namespace {

// How an operation is cut. A stage holds `parts` pieces of a window each: one
// per rank that reads its own, or a single one for all.
class Windows {
 public:
  Windows(const ArenaStep& step, size_t element_bytes, int parts)
      : step_(step),
        element_bytes_(element_bytes),
        elements_(step.arena.tuning().window_bytes /
                  static_cast<size_t>(parts) / kCacheLine * kCacheLine /
                  element_bytes) {
    LOCKSTEP_ASSERT(elements_ > 0);
  }

  // What belongs to `window` of a part.
  Part piece(Part part, size_t window) const {
    const size_t begin = std::min(part.count, window * elements_);
    return {part.offset + begin, std::min(elements_, part.count - begin)};
  }
  size_t bytes(Part piece) const { return piece.count * element_bytes_; }

  std::byte* input(int rank, size_t window, int part = 0) const {
    return step_.arena.stage(rank, window % 2 == 0 ? Arena::Stage::kInput0
                                                   : Arena::Stage::kInput1) +
           static_cast<size_t>(part) * elements_ * element_bytes_;
  }
  std::byte* result(int rank, size_t window) const {
    return step_.arena.stage(rank, window % 2 == 0 ? Arena::Stage::kResult0
                                                   : Arena::Stage::kResult1);
  }

  // Runs `steps` for each window: step i of a window comes i synchronisations
  // after its first. `largest` is the largest part of any rank.
  using Step = std::function<void(size_t window)>;
  void run(size_t largest, std::initializer_list<Step> steps) const {
    const size_t windows = (largest + elements_ - 1) / elements_;
    if (windows == 0) return;
    for (size_t turn = 0; turn + 1 < windows + steps.size(); ++turn) {
      if (turn > 0) step_.arena.part(step_.patience);
      size_t lag = 0;
      for (const Step& step : steps) {
        if (turn >= lag && turn - lag < windows) step(turn - lag);
        ++lag;
      }
    }
  }

 private:
  static constexpr size_t kCacheLine = 64;

  const ArenaStep& step_;
  const size_t element_bytes_;
  const size_t elements_;  // of a piece, at most
};

// Calls `action` for all other ranks, each rank beginning elsewhere.
template <class Action>
void for_peers(const ArenaStep& step, const Action& action) {
  for (int i = 1; i < step.size(); ++i) {
    action((step.rank() + i) % step.size());
  }
}

// Shows every other rank its part of `in`.
template <class PartOf>
void show_parts(const ArenaStep& step, const Windows& windows, size_t window,
                const PartOf& part_for) {
  for_peers(step, [&](int peer) {
    const Part piece = windows.piece(part_for(peer), window);
    copy_bytes(windows.input(step.rank(), window, peer),
               bytes_at(step.op.in, piece.offset), windows.bytes(piece));
  });
}

// Combines this rank's `part` of all inputs; its own is still where it was.
void combine_window(const ArenaStep& step, const Windows& windows,
                    size_t window, Part part,
                    const std::vector<void*>& outputs) {
  const Part piece = windows.piece(part, window);
  combine(
      step,
      [&](int rank) {
        return rank == step.rank() ? bytes_at(step.op.in, piece.offset)
                                   : windows.input(rank, window, step.rank());
      },
      outputs, piece.count);
}

Part slice_for(const ArenaStep& step, int rank) {
  return slice_of(step.op.in.count, step.op.in.dtype, rank, step.size());
}

size_t largest_of(const std::vector<size_t>& counts, size_t equal) {
  return counts.empty() ? equal
                        : *std::max_element(counts.begin(), counts.end());
}

// Slices as in the pattern in place; then those who want the result copy the
// slices of the others.
void reduce_staged(const ArenaStep& step, bool wants_result) {
  const CollectiveOp& op = step.op;
  const Windows windows(step, size_of(op.in.dtype), step.size());
  const Part own = slice_for(step, step.rank());
  auto& outputs = step.arena.lists().outputs;
  windows.run(
      slice_for(step, 0).count,
      {[&](size_t window) {
         show_parts(step, windows, window,
                    [&](int peer) { return slice_for(step, peer); });
       },
       [&](size_t window) {
         outputs = {windows.result(step.rank(), window)};
         if (wants_result) {
           outputs.push_back(
               bytes_at(op.out, windows.piece(own, window).offset));
         }
         combine_window(step, windows, window, own, outputs);
       },
       [&](size_t window) {
         if (!wants_result) return;
         for_peers(step, [&](int peer) {
           const Part piece = windows.piece(slice_for(step, peer), window);
           copy_bytes(bytes_at(op.out, piece.offset),
                      windows.result(peer, window), windows.bytes(piece));
         });
       }});
}

// A part of each rank in `givers`, for everybody in `takers`.
template <class Gives, class Takes, class PartOf>
void gather_staged(const ArenaStep& step, const Gives& gives,
                   const Takes& takes, const Buffer& given,
                   const PartOf& part_from, size_t largest) {
  const Windows windows(step, size_of(given.dtype), 1);
  const int me = step.rank();
  windows.run(
      largest,
      {[&](size_t window) {
         if (!gives(me)) return;
         const Part piece = windows.piece({0, given.count}, window);
         copy_bytes(windows.input(me, window), bytes_at(given, piece.offset),
                    windows.bytes(piece));
       },
       [&](size_t window) {
         if (!takes(me)) return;
         for_peers(step, [&](int peer) {
           if (!gives(peer)) return;
           const Part piece = windows.piece(part_from(peer), window);
           copy_bytes(bytes_at(step.op.out, piece.offset),
                      windows.input(peer, window), windows.bytes(piece));
         });
       }});
}

}  // namespace

void all_reduce_staged(const ArenaStep& step) { reduce_staged(step, true); }

void reduce_to_root_staged(const ArenaStep& step) {
  reduce_staged(step, step.rank() == step.op.root);
}

void reduce_scatter_staged(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const Windows windows(step, size_of(op.in.dtype), step.size());
  const auto part_for = [&](int rank) {
    return part_of(op.in_counts, op.in.count, rank, step.size());
  };
  auto& outputs = step.arena.lists().outputs;
  windows.run(
      largest_of(op.in_counts, part_for(0).count),
      {[&](size_t window) { show_parts(step, windows, window, part_for); },
       [&](size_t window) {
         const Part own = part_for(step.rank());
         const size_t at = windows.piece(own, window).offset - own.offset;
         outputs = {bytes_at(op.out, at)};
         combine_window(step, windows, window, own, outputs);
       }});
}

void broadcast_staged(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const auto is_root = [&](int rank) { return rank == op.root; };
  gather_staged(
      step, is_root, [&](int rank) { return rank != op.root; }, op.out,
      [&](int /*root*/) {
        return Part{0, op.out.count};
      },
      op.out.count);
}

void all_gather_staged(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const auto everybody = [](int) { return true; };
  const auto part_from = [&](int rank) {
    return part_of(op.out_counts, op.out.count, rank, step.size());
  };
  copy_bytes(bytes_at(op.out, part_from(step.rank()).offset),
             bytes_at(op.in, 0), op.in.bytes());
  gather_staged(step, everybody, everybody, op.in, part_from,
                largest_of(op.out_counts, part_from(0).count));
}

void gather_staged(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const bool is_root = step.rank() == op.root;
  // `out` is the root's: elsewhere only the parts are known.
  const size_t total = op.in.count * static_cast<size_t>(step.size());
  const auto part_from = [&](int rank) {
    return part_of(op.out_counts, total, rank, step.size());
  };
  if (is_root) {
    copy_bytes(bytes_at(op.out, part_from(op.root).offset), bytes_at(op.in, 0),
               op.in.bytes());
  }
  gather_staged(
      step, [&](int rank) { return rank != op.root; },
      [&](int rank) { return rank == op.root; }, op.in, part_from,
      largest_of(op.out_counts, op.in.count));
}

void scatter_staged(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const Windows windows(step, size_of(op.out.dtype), step.size());
  const bool is_root = step.rank() == op.root;
  const size_t total = op.out.count * static_cast<size_t>(step.size());
  const auto part_for = [&](int rank) {
    return part_of(op.in_counts, total, rank, step.size());
  };
  if (is_root) {
    copy_bytes(bytes_at(op.out, 0), bytes_at(op.in, part_for(op.root).offset),
               op.out.bytes());
  }
  windows.run(largest_of(op.in_counts, op.out.count),
              {[&](size_t window) {
                 if (is_root) show_parts(step, windows, window, part_for);
               },
               [&](size_t window) {
                 if (is_root) return;
                 const Part piece = windows.piece({0, op.out.count}, window);
                 copy_bytes(bytes_at(op.out, piece.offset),
                            windows.input(op.root, window, step.rank()),
                            windows.bytes(piece));
               }});
}

void all_to_all_staged(const ArenaStep& step, size_t largest) {
  const CollectiveOp& op = step.op;
  const Windows windows(step, size_of(op.in.dtype), step.size());
  const auto part_for = [&](int rank) {
    return part_of(op.in_counts, op.in.count, rank, step.size());
  };
  const auto part_from = [&](int rank) {
    return part_of(op.out_counts, op.out.count, rank, step.size());
  };
  const Part own = part_for(step.rank());
  copy_bytes(bytes_at(op.out, part_from(step.rank()).offset),
             bytes_at(op.in, own.offset), own.count * size_of(op.in.dtype));
  windows.run(
      largest,
      {[&](size_t window) { show_parts(step, windows, window, part_for); },
       [&](size_t window) {
         for_peers(step, [&](int peer) {
           const Part piece = windows.piece(part_from(peer), window);
           copy_bytes(bytes_at(op.out, piece.offset),
                      windows.input(peer, window, step.rank()),
                      windows.bytes(piece));
         });
       }});
}

}  // namespace lockstep::detail

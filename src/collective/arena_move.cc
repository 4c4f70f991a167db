// SPDX-License-Identifier: Apache-2.0
// The patterns that move bytes. Each byte is copied once, by the rank that
// wants it where all of them take part, else by the rank that has it or wants
// it, so that copies run side by side.
#include <cstring>

#include <fmt/format.h>

#include "collective/arena_steps.h"
#include "lockstep/collective/arena_patterns.h"

namespace lockstep::detail {
namespace {

// In place, the two are the same memory.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

std::byte* bytes_at(const Buffer& buffer, size_t offset) {
  return static_cast<std::byte*>(buffer.data) + offset * size_of(buffer.dtype);
}

}  // namespace

void broadcast(ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const bool is_root = step.rank() == op.root;
  auto* const target = static_cast<std::byte*>(op.out.data);
  if (op.out.bytes() <= one_phase_limit(step.size())) {
    if (is_root) copy_bytes(step.arena.payload(), target, op.out.bytes());
    step.arena.meet(step.record(), step.patience);
    if (!is_root)
      copy_bytes(target, step.arena.payload(op.root), op.out.bytes());
    return;
  }
  step.arena.exchange(step.record(), step.patience, [&] {
    if (!is_root) copy_bytes(target, step.out_of(op.root), op.out.bytes());
  });
}

void all_gather(ArenaStep& step) {
  const CollectiveOp& op = step.op;
  step.arena.exchange(step.record(), step.patience, [&] {
    // Beginning with the next rank, so that not all read the same one at once.
    for (int i = 1; i <= step.size(); ++i) {
      const int peer = (step.rank() + i) % step.size();
      const Part part = part_of(op.out_counts, op.out.count, peer, step.size());
      copy_bytes(bytes_at(op.out, part.offset), step.in_of(peer),
                 part.count * size_of(op.out.dtype));
    }
  });
}

void gather(ArenaStep& step) {
  const CollectiveOp& op = step.op;
  step.arena.exchange(step.record(), step.patience, [&] {
    // `out` is the root's: elsewhere only the parts are known.
    const size_t total = op.in.count * static_cast<size_t>(step.size());
    const Part part = part_of(op.out_counts, total, step.rank(), step.size());
    copy_bytes(step.out_of(op.root, part.offset), bytes_at(op.in, 0),
               op.in.bytes());
  });
}

void scatter(ArenaStep& step) {
  const CollectiveOp& op = step.op;
  step.arena.exchange(step.record(), step.patience, [&] {
    const size_t total = op.out.count * static_cast<size_t>(step.size());
    const Part part = part_of(op.in_counts, total, step.rank(), step.size());
    copy_bytes(bytes_at(op.out, 0), step.in_of(op.root, part.offset),
               op.out.bytes());
  });
}

namespace {

// With given parts, what rank a has for rank b must be what b expects from a.
// Every rank shows both its lists in its payload, and all check all pairs, so
// that all find the same mistake.
class SplitLists {
 public:
  explicit SplitLists(const ArenaStep& step)
      : step_(step), ranks_(static_cast<size_t>(step.size())) {}

  void show() const {
    std::byte* to = step_.arena.payload();
    for (const auto* list : {&step_.op.in_counts, &step_.op.out_counts}) {
      for (const size_t count : *list) {
        const uint64_t word = count;
        std::memcpy(to, &word, sizeof(word));
        to += sizeof(word);
      }
    }
  }

  size_t given(int from, int to) const { return word(from, to); }
  size_t expected(int by, int from) const {
    return word(by, static_cast<int>(ranks_) + from);
  }

  // Where the part for `to` begins in what `from` has.
  size_t offset(int from, int to) const {
    size_t sum = 0;
    for (int rank = 0; rank < to; ++rank) sum += given(from, rank);
    return sum;
  }

  void check() const {
    for (int from = 0; from < step_.size(); ++from) {
      for (int to = 0; to < step_.size(); ++to) {
        LOCKSTEP_CHECK(
            given(from, to) == expected(to, from), MismatchError,
            "rank {} has {} elements for rank {}, which expects {} from it; "
            "in_counts[{}] on rank {} must equal out_counts[{}] on rank {}",
            from, given(from, to), to, expected(to, from), to, from, from, to);
      }
    }
  }

 private:
  size_t word(int rank, int index) const {
    uint64_t value;
    std::memcpy(
        &value,
        step_.arena.payload(rank) + static_cast<size_t>(index) * sizeof(value),
        sizeof(value));
    return value;
  }

  const ArenaStep& step_;
  const size_t ranks_;
};

}  // namespace

void all_to_all(ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const bool given = !op.in_counts.empty();
  const SplitLists lists(step);
  if (given) lists.show();
  step.arena.exchange(step.record(), step.patience, [&] {
    if (given) lists.check();
    for (int i = 1; i <= step.size(); ++i) {
      const int peer = (step.rank() + i) % step.size();
      const Part part = part_of(op.out_counts, op.out.count, peer, step.size());
      const size_t from =
          given ? lists.offset(peer, step.rank())
                : part_of({}, op.in.count, step.rank(), step.size()).offset;
      copy_bytes(bytes_at(op.out, part.offset), step.in_of(peer, from),
                 part.count * size_of(op.out.dtype));
    }
  });
}

}  // namespace lockstep::detail

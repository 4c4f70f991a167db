// SPDX-License-Identifier: Apache-2.0
// The patterns that move bytes. Each byte is copied once, by the rank that
// wants it where all of them take part, else by the rank that has it or wants
// it, so that copies run side by side.
#include <algorithm>

#include <fmt/format.h>

#include "collective/arena_steps.h"

namespace lockstep::detail {

void broadcast(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const size_t bytes = op.out.bytes();
  const bool is_root = step.rank() == op.root;
  std::byte* const target = bytes_at(op.out, 0);
  if (step.is_small(bytes)) {
    if (is_root) copy_bytes(step.arena.payload(bytes), target, bytes);
    step.meet_small();
    if (!is_root) copy_bytes(target, step.arena.payload(op.root, bytes), bytes);
    return;
  }
  step.meet();
  if (!step.sees_out(op.root)) return broadcast_staged(step);
  step.arena.work_and_part(step.patience, [&] {
    if (is_root) return;
    const size_t all = bytes * static_cast<size_t>(step.size() - 1);
    copy_shared(target, step.out_of(op.root), bytes, all);
  });
}

void all_gather(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const size_t all = op.out.bytes() * static_cast<size_t>(step.size());
  // Beginning with the next rank, so that not all read the same one at once.
  const auto collect = [&](const auto& part_from) {
    for (int i = 1; i <= step.size(); ++i) {
      const int peer = (step.rank() + i) % step.size();
      const Part part = part_of(op.out_counts, op.out.count, peer, step.size());
      const size_t bytes = part.count * size_of(op.out.dtype);
      copy_shared(bytes_at(op.out, part.offset), part_from(peer, bytes), bytes,
                  all);
    }
  };
  if (step.is_small(op.out.bytes())) {
    copy_bytes(step.arena.payload(op.in.bytes()), bytes_at(op.in, 0),
               op.in.bytes());
    step.meet_small();
    return collect([&](int peer, size_t bytes) {
      return step.arena.payload(peer, bytes);
    });
  }
  step.meet();
  if (!step.sees_all_in()) return all_gather_staged(step);
  step.arena.work_and_part(step.patience, [&] {
    collect([&](int peer, size_t /*bytes*/) { return step.in_of(peer); });
  });
}

void gather(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  step.meet();
  if (!step.sees_out(op.root)) return gather_staged(step);
  step.arena.work_and_part(step.patience, [&] {
    // `out` is the root's: elsewhere only the parts are known.
    const size_t total = op.in.count * static_cast<size_t>(step.size());
    const Part part = part_of(op.out_counts, total, step.rank(), step.size());
    copy_bytes(step.out_of(op.root, part.offset), bytes_at(op.in, 0),
               op.in.bytes());
  });
}

void scatter(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  step.meet();
  if (!step.sees_in(op.root)) return scatter_staged(step);
  step.arena.work_and_part(step.patience, [&] {
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
    std::byte* to = step_.arena.payload(bytes());
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
    check_splits(
        step_.size(), [this](int from, int to) { return given(from, to); },
        [this](int by, int from) { return expected(by, from); });
  }

  size_t largest() const {
    size_t most = 0;
    for (int from = 0; from < step_.size(); ++from) {
      for (int to = 0; to < step_.size(); ++to) {
        most = std::max(most, given(from, to));
      }
    }
    return most;
  }

 private:
  size_t bytes() const { return 2 * ranks_ * sizeof(uint64_t); }

  size_t word(int rank, int index) const {
    uint64_t value;
    std::memcpy(&value,
                step_.arena.payload(rank, bytes()) +
                    static_cast<size_t>(index) * sizeof(value),
                sizeof(value));
    return value;
  }

  const ArenaStep& step_;
  const size_t ranks_;
};

}  // namespace

void all_to_all(const ArenaStep& step) {
  const CollectiveOp& op = step.op;
  const bool given = !op.in_counts.empty();
  const SplitLists lists(step);
  if (given) lists.show();
  step.meet();
  if (!step.sees_all_in()) {
    if (given) lists.check();
    const size_t equal = op.in.count / static_cast<size_t>(step.size());
    return all_to_all_staged(step, given ? lists.largest() : equal);
  }
  step.arena.work_and_part(step.patience, [&] {
    if (given) lists.check();
    for (int i = 1; i <= step.size(); ++i) {
      const int peer = (step.rank() + i) % step.size();
      const Part part = part_of(op.out_counts, op.out.count, peer, step.size());
      const size_t from =
          given ? lists.offset(peer, step.rank())
                : part_of({}, op.in.count, step.rank(), step.size()).offset;
      copy_shared(bytes_at(op.out, part.offset), step.in_of(peer, from),
                  part.count * size_of(op.out.dtype),
                  op.out.bytes() * static_cast<size_t>(step.size()));
    }
  });
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "comm/op_maker.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

bool overlap(const Buffer& a, const Buffer& b) {
  const auto* const a0 = static_cast<const std::byte*>(a.data);
  const auto* const b0 = static_cast<const std::byte*>(b.data);
  const std::less<> before;
  return a.count > 0 && b.count > 0 && before(a0, b0 + b.bytes()) &&
         before(b0, a0 + a.bytes());
}

void check_same_type(const Buffer& in, const Buffer& out) {
  LOCKSTEP_CHECK(in.dtype == out.dtype, UsageError,
                 "in is {} and out is {}; they must have one type",
                 to_text(in.dtype), to_text(out.dtype));
}

void check_same_or_apart(const Buffer& in, const Buffer& out) {
  LOCKSTEP_CHECK(in.data == out.data || !overlap(in, out), UsageError,
                 "in and out overlap without being the same memory");
}

// So few that parts of all ranks can be added up and counted in bytes.
size_t most_elements(int ranks) {
  return (size_t{1} << 59) / static_cast<size_t>(ranks);
}

size_t sum_of(const std::vector<size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

CollectiveOp make(OpKind kind, const Buffer& in, const Buffer& out,
                  const Buffer& agreed) {
  CollectiveOp op;
  op.kind = kind;
  op.in = in;
  op.out = out;
  op.signature.kind = kind;
  op.signature.dtype = agreed.dtype;
  const auto count = static_cast<int64_t>(agreed.count);
  op.signature.set_dims(&count, 1);
  return op;
}

CollectiveOp with_reduce(CollectiveOp op, ReduceOp reduce) {
  check_defined(reduce.kind(), op.in.dtype);
  op.reduce = reduce;
  op.signature.reduce = reduce.kind();
  return op;
}

CollectiveOp with_root(CollectiveOp op, int root) {
  op.root = root;
  op.signature.root = root;
  return op;
}

// With a list of parts it is the list that all must agree on: the shape is
// each rank's own.
CollectiveOp with_counts(CollectiveOp op,
                         std::vector<size_t> CollectiveOp::*which,
                         const std::vector<size_t>& counts) {
  if (counts.empty()) return op;
  op.*which = counts;
  op.signature.counts_hash = agreement_of(counts);
  const auto total = static_cast<int64_t>(sum_of(counts));
  op.signature.set_dims(&total, 1);
  return op;
}

}  // namespace

void OpMaker::set_shape(CollectiveOp& op,
                        const std::vector<int64_t>& shape) const {
  Signature& signature = op.signature;
  const bool has_count = signature.dim_count > 0 && signature.counts_hash == 0;
  if (shape.empty() || !has_count) return;
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1},
                                        std::multiplies<>());
  LOCKSTEP_CHECK(count == signature.dims[0], UsageError,
                 "the shape [{}] has {} elements, the data has {}",
                 fmt::join(shape, ", "), count, signature.dims[0]);
  signature.set_dims(shape.data(), shape.size());
}

void OpMaker::check_buffer(const char* which, const Buffer& buffer) const {
  LOCKSTEP_CHECK(buffer.count == 0 || buffer.data != nullptr, UsageError,
                 "{} has {} elements and no memory", which, buffer.count);
  LOCKSTEP_CHECK(buffer.count <= most_elements(size_), UsageError,
                 "{} has {} elements; no memory has so many", which,
                 buffer.count);
}

void OpMaker::check_rank(const char* which, int rank) const {
  LOCKSTEP_CHECK(rank >= 0 && rank < size_, UsageError,
                 "{} is {}; ranks of this group go from 0 to {}", which, rank,
                 size_ - 1);
}

void OpMaker::check_counts(const char* name, const Counts& counts) const {
  LOCKSTEP_CHECK(counts.empty() || counts.size() == static_cast<size_t>(size_),
                 UsageError, "{} has {} entries for {} ranks", name,
                 counts.size(), size_);
  for (const size_t count : counts) {
    LOCKSTEP_CHECK(count <= most_elements(size_), UsageError,
                   "{} has an entry of {}; no memory has so many elements",
                   name, count);
  }
}

void OpMaker::check_part(const char* part_name, const Buffer& part,
                         const Counts& counts) const {
  check_buffer(part_name, part);
  check_counts("counts", counts);
  LOCKSTEP_CHECK(
      counts.empty() || part.count == counts[static_cast<size_t>(rank_)],
      UsageError, "{} has {} elements, but counts[{}] says {}", part_name,
      part.count, rank_, counts[static_cast<size_t>(rank_)]);
}

void OpMaker::check_parts(const char* part_name, const Buffer& part,
                          const char* whole_name, const Buffer& whole,
                          const Counts& counts) const {
  check_part(part_name, part, counts);
  check_buffer(whole_name, whole);
  check_same_type(part, whole);
  const size_t total =
      counts.empty() ? part.count * static_cast<size_t>(size_) : sum_of(counts);
  LOCKSTEP_CHECK(whole.count == total, UsageError,
                 "{} has {} elements; {} ranks' parts are {}", whole_name,
                 whole.count, size_, total);
  const Part mine = part_of(counts, total, rank_, size_);
  LOCKSTEP_CHECK(!overlap(part, whole) ||
                     part.data == whole.slice(mine.offset, mine.count).data,
                 UsageError,
                 "{} overlaps {} without being this rank's part of it",
                 part_name, whole_name);
}

CollectiveOp OpMaker::all_reduce(Buffer in, Buffer out, ReduceOp op) const {
  check_buffer("in", in);
  check_buffer("out", out);
  check_same_type(in, out);
  LOCKSTEP_CHECK(in.count == out.count, UsageError,
                 "in has {} elements and out has {}", in.count, out.count);
  check_same_or_apart(in, out);
  return with_reduce(make(OpKind::kAllReduce, in, out, in), op);
}

CollectiveOp OpMaker::broadcast(Buffer data, int root) const {
  check_buffer("data", data);
  check_rank("root", root);
  return with_root(make(OpKind::kBroadcast, {}, data, data), root);
}

CollectiveOp OpMaker::reduce(Buffer in, Buffer out, ReduceOp op,
                             int root) const {
  check_buffer("in", in);
  check_rank("root", root);
  if (rank_ == root) {
    check_buffer("out", out);
    check_same_type(in, out);
    LOCKSTEP_CHECK(in.count == out.count, UsageError,
                   "in has {} elements and out has {}", in.count, out.count);
    check_same_or_apart(in, out);
  }
  out.dtype = in.dtype;
  return with_root(with_reduce(make(OpKind::kReduce, in, out, in), op), root);
}

CollectiveOp OpMaker::all_gather(Buffer in, Buffer out,
                                 const Counts& counts) const {
  check_parts("in", in, "out", out, counts);
  return with_counts(make(OpKind::kAllGather, in, out, in),
                     &CollectiveOp::out_counts, counts);
}

CollectiveOp OpMaker::gather(Buffer in, Buffer out, int root,
                             const Counts& counts) const {
  check_rank("root", root);
  check_part("in", in, counts);
  if (rank_ == root) check_parts("in", in, "out", out, counts);
  out.dtype = in.dtype;
  return with_root(with_counts(make(OpKind::kGather, in, out, in),
                               &CollectiveOp::out_counts, counts),
                   root);
}

CollectiveOp OpMaker::scatter(Buffer in, Buffer out, int root,
                              const Counts& counts) const {
  check_rank("root", root);
  check_part("out", out, counts);
  if (rank_ == root) check_parts("out", out, "in", in, counts);
  in.dtype = out.dtype;
  return with_root(with_counts(make(OpKind::kScatter, in, out, out),
                               &CollectiveOp::in_counts, counts),
                   root);
}

CollectiveOp OpMaker::reduce_scatter(Buffer in, Buffer out, ReduceOp op,
                                     const Counts& counts) const {
  check_parts("out", out, "in", in, counts);
  return with_reduce(with_counts(make(OpKind::kReduceScatter, in, out, out),
                                 &CollectiveOp::in_counts, counts),
                     op);
}

CollectiveOp OpMaker::all_to_all(Buffer in, Buffer out, const Counts& in_counts,
                                 const Counts& out_counts) const {
  check_buffer("in", in);
  check_buffer("out", out);
  check_same_type(in, out);
  check_counts("in_counts", in_counts);
  check_counts("out_counts", out_counts);
  LOCKSTEP_CHECK(in_counts.empty() == out_counts.empty(), UsageError,
                 "give both in_counts and out_counts, or none");
  LOCKSTEP_CHECK(!overlap(in, out), UsageError,
                 "in and out overlap; all_to_all needs memory of its own");
  if (in_counts.empty()) {
    LOCKSTEP_CHECK(in.count == out.count, UsageError,
                   "in has {} elements and out has {}", in.count, out.count);
    LOCKSTEP_CHECK(in.count % static_cast<size_t>(size_) == 0, UsageError,
                   "{} elements cannot be split evenly over {} ranks", in.count,
                   size_);
    return make(OpKind::kAllToAll, in, out, in);
  }
  LOCKSTEP_CHECK(sum_of(in_counts) == in.count, UsageError,
                 "in has {} elements, but in_counts add up to {}", in.count,
                 sum_of(in_counts));
  LOCKSTEP_CHECK(sum_of(out_counts) == out.count, UsageError,
                 "out has {} elements, but out_counts add up to {}", out.count,
                 sum_of(out_counts));
  CollectiveOp op = make(OpKind::kAllToAll, in, out, in);
  op.in_counts = in_counts;
  op.out_counts = out_counts;
  // Each pair of ranks has counts of its own; backends compare those. That
  // there are lists at all must be the same everywhere.
  op.signature.set_dims(nullptr, 0);
  op.signature.counts_hash = 1;
  return op;
}

CollectiveOp OpMaker::barrier() const {
  CollectiveOp op = make(OpKind::kBarrier, {}, {}, {});
  op.signature.set_dims(nullptr, 0);
  return op;
}

CollectiveOp OpMaker::allocate(size_t bytes) const {
  CollectiveOp op = make(OpKind::kAllocate, {}, {}, {});
  const auto count = static_cast<int64_t>(bytes);
  op.signature.set_dims(&count, 1);
  return op;
}

}  // namespace lockstep::detail

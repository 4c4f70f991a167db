// SPDX-License-Identifier: Apache-2.0
#include "support/collective_case.h"

#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace lockstep::testing {
namespace {

size_t index(int rank) { return static_cast<size_t>(rank); }

size_t total_of(const std::vector<size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

}  // namespace

const char* to_text(Collective collective) {
  constexpr std::array<const char*, kCollectiveCount> kNames = {
      "all_reduce",
      "broadcast",
      "reduce",
      "all_gather",
      "gather",
      "scatter",
      "reduce_scatter",
      "all_to_all",
      "all_reduce_coalesced",
      "all_gather_coalesced",
      "reduce_scatter_coalesced"};
  return kNames[static_cast<size_t>(collective)];
}

bool has_reduction(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kAllReduceCoalesced:
    case Collective::kReduceScatterCoalesced:
      return true;
    default:
      return false;
  }
}

std::string describe(const CollectiveCase& one) {
  return fmt::format("{} ({}) of {} {}{}{}, root {}, seed {}",
                     to_text(one.collective), to_text(one.reduce), one.count,
                     to_text(one.dtype), one.in_place ? ", in place" : "",
                     one.unequal ? ", unequal parts" : "", one.root, one.seed);
}

CaseRun::CaseRun(const CollectiveCase& one, int rank, int size,
                 MemoryPool* pool)
    : case_(one), rank_(rank), size_(size), pool_(pool) {
  pieces_.push_back(make_piece(one.count, one.seed));
  if (!is_coalesced()) return;
  pieces_.push_back(make_piece(one.count / 2, one.seed + 1));
  pieces_.push_back(make_piece(one.count == 0 ? 0 : 1, one.seed + 2));
}

bool CaseRun::is_coalesced() const {
  return case_.collective == Collective::kAllReduceCoalesced ||
         case_.collective == Collective::kAllGatherCoalesced ||
         case_.collective == Collective::kReduceScatterCoalesced;
}

// `count`, half of it, or none, by turns.
std::vector<size_t> CaseRun::counts_for(size_t count) const {
  std::vector<size_t> counts;
  for (int rank = 0; rank < size_; ++rank) {
    const bool unequal = case_.unequal && !is_coalesced();
    const size_t halves = unequal ? (index(rank) + case_.seed) % 3 : 2;
    counts.push_back(count * halves / 2);
  }
  return counts;
}

size_t CaseRun::sent(int from, int to) const {
  if (!case_.unequal) return case_.count;
  return case_.count * ((index(from) * 2 + index(to) + case_.seed) % 3) / 2;
}

size_t CaseRun::sent_before(int from, int to) const {
  size_t sum = 0;
  for (int rank = 0; rank < to; ++rank) sum += sent(from, rank);
  return sum;
}

std::vector<size_t> CaseRun::sent_by_me() const {
  std::vector<size_t> counts;
  for (int to = 0; to < size_; ++to) counts.push_back(sent(rank_, to));
  return counts;
}

std::vector<size_t> CaseRun::sent_to_me() const {
  std::vector<size_t> counts;
  for (int from = 0; from < size_; ++from) counts.push_back(sent(from, rank_));
  return counts;
}

void CaseRun::make_in(Piece& piece, size_t count) const {
  piece.in_memory = FencedMemory(count, case_.dtype, pool_);
  piece.in = piece.in_memory.buffer();
}

void CaseRun::make_out(Piece& piece, size_t count) const {
  piece.out_memory = FencedMemory(count, case_.dtype, pool_);
  piece.out = piece.out_memory.buffer();
}

CaseRun::Piece CaseRun::make_piece(size_t count, uint32_t seed) const {
  Piece piece{Pattern(case_.dtype, case_.reduce, size_, seed), {}, {}, {}, {}};
  const std::vector<size_t> counts = counts_for(count);
  const size_t total = total_of(counts);
  const Part mine = part_of(counts, total, rank_, size_);
  const bool is_root = rank_ == case_.root;
  switch (case_.collective) {
    case Collective::kAllReduceCoalesced:
      make_in(piece, count);
      piece.out = piece.in;  // has no other form
      break;
    case Collective::kAllReduce:
    case Collective::kReduce:
      make_in(piece, count);
      if (case_.in_place && has_result()) {
        piece.out = piece.in;
      } else {
        make_out(piece, count);
      }
      break;
    case Collective::kBroadcast:
      make_out(piece, count);
      if (is_root) piece.pattern.fill_input(piece.out, rank_);
      return piece;
    case Collective::kAllGather:
    case Collective::kAllGatherCoalesced:
    case Collective::kGather:
      make_out(piece, total);
      if (case_.in_place && has_result() && !is_coalesced()) {
        piece.in = piece.out.slice(mine.offset, mine.count);
      } else {
        make_in(piece, mine.count);
      }
      break;
    case Collective::kScatter:
    case Collective::kReduceScatter:
    case Collective::kReduceScatterCoalesced: {
      const bool scatter = case_.collective == Collective::kScatter;
      make_in(piece, scatter && !is_root ? 0 : total);
      if (case_.in_place && (!scatter || is_root) && !is_coalesced()) {
        piece.out = piece.in.slice(mine.offset, mine.count);
      } else {
        make_out(piece, mine.count);
      }
      break;
    }
    case Collective::kAllToAll:
      make_in(piece, total_of(sent_by_me()));
      make_out(piece, total_of(sent_to_me()));
      break;
  }
  piece.pattern.fill_input(piece.in, rank_);
  return piece;
}

bool CaseRun::has_result() const {
  const bool at_root_only = case_.collective == Collective::kReduce ||
                            case_.collective == Collective::kGather;
  return !at_root_only || rank_ == case_.root;
}

std::shared_ptr<Work> CaseRun::start(ProcessGroup& group, CallOptions options) {
  const Piece& one = pieces_.front();
  const ReduceOp op = one.pattern.op_for(rank_);
  const auto counts =
      case_.unequal ? counts_for(case_.count) : std::vector<size_t>();
  std::vector<Buffer> ins;
  std::vector<Buffer> outs;
  for (const Piece& piece : pieces_) {
    ins.push_back(piece.in);
    outs.push_back(piece.out);
  }
  switch (case_.collective) {
    case Collective::kAllReduce:
      return group.all_reduce(one.in, one.out, op, std::move(options));
    case Collective::kBroadcast:
      return group.broadcast(one.out, case_.root, std::move(options));
    case Collective::kReduce:
      return group.reduce(one.in, one.out, op, case_.root, std::move(options));
    case Collective::kAllGather:
      return group.all_gather(one.in, one.out, counts, std::move(options));
    case Collective::kGather:
      return group.gather(one.in, one.out, case_.root, counts,
                          std::move(options));
    case Collective::kScatter:
      return group.scatter(one.in, one.out, case_.root, counts,
                           std::move(options));
    case Collective::kReduceScatter:
      return group.reduce_scatter(one.in, one.out, op, counts,
                                  std::move(options));
    case Collective::kAllToAll:
      if (!case_.unequal) {
        return group.all_to_all(one.in, one.out, {}, {}, std::move(options));
      }
      return group.all_to_all(one.in, one.out, sent_by_me(), sent_to_me(),
                              std::move(options));
    case Collective::kAllReduceCoalesced:
      return group.all_reduce_coalesced(ins, op, std::move(options));
    case Collective::kAllGatherCoalesced:
      return group.all_gather_coalesced(ins, outs, std::move(options));
    case Collective::kReduceScatterCoalesced:
      return group.reduce_scatter_coalesced(ins, outs, op, std::move(options));
  }
  return nullptr;
}

std::string CaseRun::problem() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const std::string text = problem_of(pieces_[i]);
    if (text.empty()) continue;
    return fmt::format("{}, rank {} of {}, buffer {}: {}", describe(case_),
                       rank_, size_, i, text);
  }
  return "";
}

std::string CaseRun::problem_of(Piece& piece) const {
  if (!piece.in_memory.fences_hold() || !piece.out_memory.fences_hold()) {
    return "something was written beyond the buffer";
  }
  if (!has_result()) {
    if (!piece.out_memory.is_untouched()) return "out was written to";
  } else if (const auto text = result_problem(piece); !text.empty()) {
    return text;
  }
  const bool apart = piece.in_memory.buffer().data != nullptr &&
                     piece.out_memory.buffer().data != nullptr;
  if (!apart) return "";  // the result is where the input was
  const auto text = piece.pattern.input_problem(piece.in, rank_);
  return text.empty() ? "" : "the input was changed: " + text;
}

std::string CaseRun::result_problem(const Piece& piece) const {
  const Pattern& pattern = piece.pattern;
  const size_t whole = std::max(piece.in.count, piece.out.count);
  switch (case_.collective) {
    case Collective::kAllReduce:
    case Collective::kAllReduceCoalesced:
    case Collective::kReduce:
      return pattern.reduced_problem(piece.out);
    case Collective::kBroadcast:
      return pattern.input_problem(piece.out, case_.root);
    case Collective::kAllToAll:
      return all_to_all_problem(piece);
    default:
      break;
  }
  const bool coalesced = is_coalesced();
  const size_t each = coalesced ? whole / index(size_) : case_.count;
  const std::vector<size_t> counts = counts_for(each);
  const Part mine = part_of(counts, 0, rank_, size_);
  switch (case_.collective) {
    case Collective::kScatter:
      return pattern.input_problem(piece.out, case_.root, mine.offset);
    case Collective::kReduceScatter:
    case Collective::kReduceScatterCoalesced:
      return pattern.reduced_problem(piece.out, mine.offset);
    default:
      break;
  }
  for (int rank = 0; rank < size_; ++rank) {  // the gathers
    const Part part = part_of(counts, 0, rank, size_);
    const auto text =
        pattern.input_problem(piece.out.slice(part.offset, part.count), rank);
    if (!text.empty()) return fmt::format("part of rank {}: {}", rank, text);
  }
  return "";
}

std::string CaseRun::all_to_all_problem(const Piece& piece) const {
  size_t offset = 0;
  for (int from = 0; from < size_; ++from) {
    const size_t count = sent(from, rank_);
    const auto text = piece.pattern.input_problem(
        piece.out.slice(offset, count), from, sent_before(from, rank_));
    if (!text.empty()) return fmt::format("part of rank {}: {}", from, text);
    offset += count;
  }
  return "";
}

bool CaseRun::is_untouched() {
  for (Piece& piece : pieces_) {
    if (!piece.in_memory.fences_hold() || !piece.out_memory.fences_hold()) {
      return false;
    }
    const bool is_source =
        case_.collective == Collective::kBroadcast && rank_ == case_.root;
    const Buffer input = is_source ? piece.out : piece.in;
    if (!piece.pattern.input_problem(input, rank_).empty()) return false;
    const bool has_own_out = piece.out_memory.buffer().data != nullptr &&
                             piece.in_memory.buffer().data != nullptr;
    if (has_own_out && !piece.out_memory.is_untouched()) return false;
  }
  return true;
}

}  // namespace lockstep::testing

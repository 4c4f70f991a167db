// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collective/collective_op.h"

#include <cstring>
#include <type_traits>

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/collective/rank_errors.h"

namespace lockstep {
namespace {

bool has_root(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce ||
         kind == OpKind::kGather || kind == OpKind::kScatter;
}
bool has_reduce(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce ||
         kind == OpKind::kReduceScatter;
}

auto fields(const Signature& s) {
  return std::tie(s.sequence, s.counts_hash, s.dims, s.root, s.kind, s.dtype,
                  s.reduce, s.dim_count);
}

}  // namespace

const char* to_text(OpKind kind) {
  static constexpr std::array<const char*, 13> kNames = {
      "all_reduce", "broadcast",      "reduce",     "all_gather", "gather",
      "scatter",    "reduce_scatter", "all_to_all", "barrier",    "allocate",
      "send",       "recv",           "local step"};
  return kNames[static_cast<size_t>(kind)];
}

void Signature::set_dims(const int64_t* sizes, size_t count) {
  dims.fill(0);
  dim_count = static_cast<uint8_t>(std::min<size_t>(count, kMostDims));
  for (size_t i = 0; i < count; ++i) {
    if (i < kMostDims) {
      dims[i] = sizes[i];
    } else {
      dims[kMostDims - 1] *= sizes[i];
    }
  }
}

bool operator==(const Signature& a, const Signature& b) {
  return fields(a) == fields(b);
}

namespace {

constexpr uint64_t kHashSeed = 0xcbf29ce484222325;

uint64_t mix(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

}  // namespace

uint64_t digest_of(const Signature& signature) {
  std::array<uint64_t, sizeof(Signature) / sizeof(uint64_t)> words;
  static_assert(sizeof(words) == sizeof(signature) &&
                std::has_unique_object_representations_v<Signature>);
  std::memcpy(words.data(), &signature, sizeof(words));
  uint64_t hash = kHashSeed;
  for (const uint64_t word : words) hash = mix(hash, word);
  return hash;
}

uint64_t agreement_of(const std::vector<size_t>& numbers) {
  if (numbers.empty()) return 0;
  uint64_t hash = kHashSeed;
  for (const uint64_t number : numbers) hash = mix(hash, number);
  return hash | 1;  // 0 means: no list
}

std::string describe(const Signature& signature) {
  std::string text =
      fmt::format("{} #{}", to_text(signature.kind), signature.sequence);
  const bool no_data = signature.dim_count == 0 && signature.counts_hash == 0;
  if (no_data) return text;  // a barrier, or something composed
  if (signature.kind == OpKind::kAllocate) {
    return text + fmt::format(" of {} bytes", signature.dims[0]);
  }
  if (has_reduce(signature.kind)) {
    text += fmt::format(" ({})", to_text(signature.reduce));
  }
  const auto dims = signature.dims.begin();
  text += fmt::format(" of {} [{}]", to_text(signature.dtype),
                      fmt::join(dims, dims + signature.dim_count, ", "));
  if (signature.counts_hash != 0) {
    text += fmt::format(" in given parts (list {:08x})",
                        signature.counts_hash & 0xffffffff);
  }
  if (has_root(signature.kind)) {
    text += fmt::format(" with root {}", signature.root);
  }
  return text;
}

void throw_mismatch(const std::vector<Signature>& signatures) {
  // One clause for each distinct call, in the order of its first rank.
  std::vector<std::pair<Signature, std::vector<int>>> groups;
  for (size_t rank = 0; rank < signatures.size(); ++rank) {
    auto same = std::find_if(
        groups.begin(), groups.end(),
        [&](const auto& group) { return group.first == signatures[rank]; });
    if (same == groups.end()) {
      same = groups.insert(groups.end(), {signatures[rank], {}});
    }
    same->second.push_back(static_cast<int>(rank));
  }
  std::vector<std::string> clauses;
  for (const auto& [signature, ranks] : groups) {
    clauses.push_back(
        fmt::format("{} called {}", ranks_text(ranks), describe(signature)));
  }
  throw MismatchError(fmt::format(
      "the ranks did not make the same call: {}; every rank must make the same "
      "calls on a group, in the same order",
      fmt::join(clauses, "; ")));
}

void check_splits(int size, const SplitCount& given,
                  const SplitCount& expected) {
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      LOCKSTEP_CHECK(
          given(from, to) == expected(to, from), MismatchError,
          "rank {} has {} elements for rank {}, which expects {} from it; "
          "in_counts[{}] on rank {} must equal out_counts[{}] on rank {}",
          from, given(from, to), to, expected(to, from), to, from, from, to);
    }
  }
}

Part part_of(const std::vector<size_t>& counts, size_t total, int rank,
             int size) {
  if (counts.empty()) {
    const size_t each = total / static_cast<size_t>(size);
    return {each * static_cast<size_t>(rank), each};
  }
  Part part;
  for (int r = 0; r < rank; ++r) part.offset += counts[static_cast<size_t>(r)];
  part.count = counts[static_cast<size_t>(rank)];
  return part;
}

Part slice_of(size_t total, DType dtype, int rank, int size) {
  constexpr size_t kLineBytes = 64;  // of the cache
  const size_t per_line = kLineBytes / size_of(dtype);
  const auto ranks = static_cast<size_t>(size);
  const size_t lines = (total + per_line - 1) / per_line;
  const size_t each = (lines + ranks - 1) / ranks * per_line;
  const size_t begin = std::min(total, each * static_cast<size_t>(rank));
  return {begin, std::min(total - begin, each)};
}

}  // namespace lockstep

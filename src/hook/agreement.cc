// SPDX-License-Identifier: Apache-2.0
#include "hook/agreement.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

NumbersByRank gather_numbers(ProcessGroup& group,
                             const std::vector<uint64_t>& mine) {
  std::vector<int64_t> in(mine.begin(), mine.end());
  std::vector<int64_t> out(in.size() * static_cast<size_t>(group.size()));
  CallOptions blocking;
  blocking.sync = true;
  group.all_gather(buffer_of(in), buffer_of(out), {}, blocking);
  NumbersByRank by_rank;
  for (size_t begin = 0; begin < out.size(); begin += in.size()) {
    std::vector<uint64_t>& one = by_rank.emplace_back();
    for (size_t i = 0; i < in.size(); ++i) {
      one.push_back(static_cast<uint64_t>(out[begin + i]));
    }
  }
  return by_rank;
}

void check_options_agree(const NumbersByRank& by_rank, size_t position,
                         const char* hook) {
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    LOCKSTEP_CHECK(by_rank[rank][position] == by_rank[0][position],
                   MismatchError,
                   "the options of {} on rank {} are not those of rank 0; give "
                   "all ranks the same",
                   hook, rank);
  }
}

uint64_t largest(const NumbersByRank& by_rank, size_t position) {
  uint64_t most = 0;
  for (const auto& one : by_rank) most = std::max(most, one[position]);
  return most;
}

bool all_equal(const NumbersByRank& by_rank, size_t position) {
  return std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& one) {
    return one[position] == by_rank[0][position];
  });
}

uint64_t hash_more(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

uint64_t hash_more(uint64_t hash, double number) {
  uint64_t bits = 0;
  static_assert(sizeof(bits) == sizeof(number));
  std::memcpy(&bits, &number, sizeof(bits));
  return hash_more(hash, bits);
}

// Eight bytes at a time; the length counts too.
uint64_t hash_more(uint64_t hash, ConstBytes bytes) {
  hash = hash_more(hash, uint64_t{bytes.size()});
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t count = std::min(sizeof(word), bytes.size());
    std::memcpy(&word, bytes.data(), count);
    hash = hash_more(hash, word);
    bytes = bytes.from(count);
  }
  return hash;
}

}  // namespace lockstep::detail

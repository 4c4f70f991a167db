// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/base/bytes.h"
#include "lockstep/comm/process_group.h"

// How hooks that count iterations stay in step: ranks compare what they have
// when a hook meets a group for the first time.
namespace lockstep::detail {

// The group of the last call, held weakly: a Reducer that was reset, or another
// one, comes with a new group.
class GroupWatch {
 public:
  // True for the first call with this group, or after forget().
  bool is_new(const std::shared_ptr<ProcessGroup>& group) const {
    return group_.lock() != group;
  }
  void set(const std::shared_ptr<ProcessGroup>& group) { group_ = group; }
  void forget() { group_.reset(); }

 private:
  std::weak_ptr<ProcessGroup> group_;
};

using NumbersByRank = std::vector<std::vector<uint64_t>>;

// The numbers of every rank. A collective that blocks; all ranks give
// as many.
NumbersByRank gather_numbers(ProcessGroup& group,
                             const std::vector<uint64_t>& mine);

// Errors: MismatchError names the first rank whose number at `position` is not
// that of rank 0, a hash of the options of `hook`.
void check_options_agree(const NumbersByRank& by_rank, size_t position,
                         const char* hook);

uint64_t largest(const NumbersByRank& by_rank, size_t position);
bool all_equal(const NumbersByRank& by_rank, size_t position);

// A hash of `bytes` that goes on from `hash`.
constexpr uint64_t kHashStart = 0xcbf29ce484222325;
uint64_t hash_more(uint64_t hash, ConstBytes bytes);
uint64_t hash_more(uint64_t hash, uint64_t number);
// By its bits.
uint64_t hash_more(uint64_t hash, double number);

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "ddp/wrapper/replica_check.h"

#include <cstdint>
#include <cstring>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// Hashes eight bytes at a time, because it reads all parameters.
int64_t hash_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(flat.data_ptr());
  const size_t size = flat.nbytes();
  uint64_t hash = 14695981039346656037ULL;
  for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min(sizeof(word), size - i));
    hash = (hash ^ word) * 1099511628211ULL;
    hash ^= hash >> 29;
  }
  return static_cast<int64_t>(hash);
}

}  // namespace

void check_replicas(ProcessGroup& group,
                    const std::vector<ModelParameter>& parameters,
                    int64_t iteration) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> mine;
  mine.reserve(parameters.size());
  for (const auto& one : parameters) mine.push_back(hash_of(one.tensor));
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(group.size()));
  group.all_gather(buffer_of(mine), buffer_of(all))->wait();
  std::vector<std::string> differing;
  constexpr size_t kMaxNamed = 5;
  size_t count = 0;
  for (size_t i = 0; i < mine.size(); ++i) {
    std::vector<int> ranks;
    for (int rank = 1; rank < group.size(); ++rank) {
      if (all[static_cast<size_t>(rank) * mine.size() + i] != all[i]) {
        ranks.push_back(rank);
      }
    }
    if (ranks.empty() || ++count > kMaxNamed) continue;
    differing.push_back(fmt::format("'{}' (rank{} {})", parameters[i].name,
                                    ranks.size() == 1 ? "" : "s",
                                    fmt::join(ranks, ", ")));
  }
  LOCKSTEP_CHECK(
      count == 0, MismatchError,
      "at iteration {}, {} of {} parameters differ from rank 0's: {}{}; does "
      "every rank make the same optimizer steps, and does nothing else change "
      "parameters?",
      iteration, count, mine.size(), fmt::join(differing, ", "),
      count > kMaxNamed ? ", ..." : "");
}

}  // namespace lockstep::detail

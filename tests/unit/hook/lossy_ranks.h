// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "lockstep/hook/comm_hook.h"
#include "parity/parity_kinds.h"
#include "support/rank_team.h"
#include "unit/hook/hook_buckets.h"

namespace lockstep::testing {

// What a hook is told of a step besides the gradients.
struct HookStep {
  int64_t iteration = 0;
  int divisor = 0;  // 0: the number of ranks
  size_t bucket = 0;
};

inline HookContext context_for(ProcessGroup& group, const HookStep& step) {
  return {group.shared_from_this(),
          step.divisor == 0 ? group.size() : step.divisor, step.iteration,
          nullptr};
}

// What becomes of `gradients`, the only parameter of a bucket.
inline at::Tensor run_lossy(const CommHook& hook, ProcessGroup& group,
                            const at::Tensor& gradients,
                            const HookStep& step = {}) {
  GradBucket bucket = make_bucket(step.bucket, step.bucket + 1,
                                  {{step.bucket, gradients.numel()}});
  bucket.set_buffer(gradients.clone());
  return hook(bucket, context_for(group, step))
      .get(Deadline::in(std::chrono::seconds(30)))
      .clone();
}

// Normally distributed numbers that depend on the rank and `seed` only.
inline at::Tensor gradients_of_rank(int rank, int64_t count,
                                    uint64_t seed = 0) {
  return at::randn({count}, at::make_generator<at::CPUGeneratorImpl>(
                                1000 * seed + static_cast<uint64_t>(rank)));
}

// The average over ranks in double.
inline at::Tensor true_average(int ranks, int64_t count, uint64_t seed = 0) {
  at::Tensor sum = at::zeros({count}, at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) {
    sum += gradients_of_rank(rank, count, seed);
  }
  return sum / ranks;
}

// What `body` returns on each rank of a team, or of a new local group.
inline std::vector<at::Tensor> on_lossy_ranks(
    RankTeam& team, const std::function<at::Tensor(ProcessGroup&)>& body) {
  std::vector<at::Tensor> results(static_cast<size_t>(team.size()));
  team.run([&](ProcessGroup& group) {
    results[static_cast<size_t>(group.rank())] = body(group);
  });
  return results;
}
inline std::vector<at::Tensor> on_lossy_ranks(
    int size, const std::function<at::Tensor(ProcessGroup&)>& body) {
  RankTeam team(parity_kinds().front(), size, parity_options());
  return on_lossy_ranks(team, body);
}

// Equal bit by bit; NaN is equal to NaN.
inline bool are_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::equal(a.contiguous().view(at::kInt),
                                             b.contiguous().view(at::kInt));
}
inline bool are_same_on_all(const std::vector<at::Tensor>& by_rank) {
  for (const at::Tensor& one : by_rank) {
    if (!are_same(one, by_rank.front())) return false;
  }
  return true;
}

inline double largest_of(const at::Tensor& values) {
  return values.abs().max().item<double>();
}

}  // namespace lockstep::testing

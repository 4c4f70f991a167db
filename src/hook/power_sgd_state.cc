// SPDX-License-Identifier: Apache-2.0
#include "hook/power_sgd_state.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep::detail {
namespace {

void check_options(const hooks::PowerSgdOptions& options) {
  LOCKSTEP_CHECK(options.rank >= 1, UsageError,
                 "rank is {} but must be at least 1", options.rank);
  LOCKSTEP_CHECK(options.start_iter >= 0, UsageError,
                 "start_iter is {} but must not be negative",
                 options.start_iter);
  LOCKSTEP_CHECK(
      options.start_iter > 1 ||
          (!options.error_feedback && !options.warm_start),
      UsageError,
      "start_iter is {} but must be greater than 1 with error_feedback or "
      "warm_start: the first gradients are unlike later ones, and would stay "
      "in the residuals and directions",
      options.start_iter);
  LOCKSTEP_CHECK(std::isfinite(options.min_compression_rate) &&
                     options.min_compression_rate > 0,
                 UsageError,
                 "min_compression_rate is {} but must be a positive number",
                 options.min_compression_rate);
  LOCKSTEP_CHECK(std::isfinite(options.epsilon) && options.epsilon >= 0,
                 UsageError, "epsilon is {} but must be zero or more",
                 options.epsilon);
  LOCKSTEP_CHECK(options.log_stats_every >= 0, UsageError,
                 "log_stats_every is {} but must be zero or more",
                 options.log_stats_every);
}

hooks::PowerSgdOptions checked(const hooks::PowerSgdOptions& options) {
  check_options(options);
  return options;
}

}  // namespace

PowerSgdState::PowerSgdState(hooks::PowerSgdOptions options)
    : options_(checked(options)) {}

// ---- In step with other ranks.

void PowerSgdState::meet(const std::shared_ptr<ProcessGroup>& group,
                         const char* hook) {
  if (!watch_.is_new(group)) return;
  const auto by_rank = gather_numbers(
      *group, {hash_more(hash_of_options(), ConstBytes(hook)),
               static_cast<uint64_t>(stats_.iterations), hash_of_directions()});
  check_options_agree(by_rank, 0, hook);
  stats_.iterations = static_cast<int64_t>(largest(by_rank, 1));
  if (!all_equal(by_rank, 2)) directions_.clear();
  watch_.set(group);
}

uint64_t PowerSgdState::hash_of_options() const {
  uint64_t hash = kHashStart;
  for (const int64_t number :
       {int64_t{options_.rank}, options_.start_iter,
        int64_t{options_.error_feedback}, int64_t{options_.warm_start},
        int64_t{options_.batch_same_shapes}}) {
    hash = hash_more(hash, static_cast<uint64_t>(number));
  }
  hash = hash_more(hash, options_.seed);
  hash = hash_more(hash, options_.min_compression_rate);
  return hash_more(hash, options_.epsilon);
}

uint64_t PowerSgdState::hash_of_directions() const {
  uint64_t hash = kHashStart;
  for (const auto& [key, one] : directions_) {
    if (!one->columns.defined()) continue;
    const at::Tensor columns = one->columns.contiguous();
    hash = hash_more(hash, uint64_t{key});
    hash = hash_more(hash, static_cast<uint64_t>(columns.size(0)));
    hash = hash_more(hash, ConstBytes(columns.data_ptr(), columns.nbytes()));
  }
  return hash;
}

// ---- From step to step.

void PowerSgdState::count_bytes(int64_t uncompressed, int64_t sent) {
  stats_.bytes_uncompressed += uncompressed;
  stats_.bytes_sent += sent;
}

void PowerSgdState::end_iteration(int rank) {
  ++stats_.iterations;
  const bool is_due = options_.log_stats_every > 0 &&
                      stats_.iterations % options_.log_stats_every == 0 &&
                      stats_.bytes_sent > 0;
  if (!is_due || rank != 0) return;
  log_info(
      fmt::format("power_sgd: {} iterations, {} bytes of gradients sent as {}: "
                  "{:.1f} times "
                  "fewer",
                  stats_.iterations, stats_.bytes_uncompressed,
                  stats_.bytes_sent, stats_.compression_rate()));
}

at::Tensor PowerSgdState::residual_of(const GradBucket& bucket) {
  return options_.error_feedback ? residuals_.of(bucket) : at::Tensor();
}

std::shared_ptr<Directions> PowerSgdState::directions_of(size_t key) {
  auto& one = directions_[key];
  if (!one) one = std::make_shared<Directions>();
  return one;
}

uint64_t PowerSgdState::seed_for(size_t key) const {
  const uint64_t hash =
      hash_more(options_.seed, static_cast<uint64_t>(stats_.iterations));
  return hash_more(hash, uint64_t{key});
}

}  // namespace lockstep::detail

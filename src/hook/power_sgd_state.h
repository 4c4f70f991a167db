// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>

#include <ATen/core/Tensor.h>

#include "hook/agreement.h"
#include "hook/bucket_memory.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/hook/power_sgd.h"

namespace lockstep::detail {

// The directions that the last step has found for a matrix, the same on all
// ranks: rank x cols, undefined at first. Changed by queued steps.
struct Directions {
  at::Tensor columns;
};

// What PowerSGD keeps from step to step.
//
// Threads: all methods at hook time or between steps, one thread at a time.
//          Queued steps change residuals and Directions they were given, until
//          the end of backward.
class PowerSgdState {
 public:
  // Errors: UsageError for options that make no sense.
  explicit PowerSgdState(hooks::PowerSgdOptions options);

  const hooks::PowerSgdOptions& options() const { return options_; }
  const hooks::PowerSgdStats& stats() const { return stats_; }

  // To be called with every bucket, before anything depends on the state. With
  // a new group: ranks compare their states, in a collective that blocks.
  // Errors: MismatchError when options differ; `hook` is its name.
  void meet(const std::shared_ptr<ProcessGroup>& group, const char* hook);

  // The reductions before were plain, from now on gradients are compressed.
  bool is_compressing() const {
    return stats_.iterations >= options_.start_iter;
  }
  // A bucket was reduced: bytes of its gradients, and bytes sent.
  void count_bytes(int64_t uncompressed, int64_t sent);
  // The last bucket was: counts the iteration and may write to the log.
  void end_iteration(int rank);

  // What was left out of a bucket so far; undefined without error feedback.
  at::Tensor residual_of(const GradBucket& bucket);
  std::shared_ptr<Directions> directions_of(size_t key);
  // Of random directions in this iteration.
  uint64_t seed_for(size_t key) const;

  // See hooks::PowerSgd.
  void save(std::ostream& out) const;
  void load(std::istream& in);

 private:
  uint64_t hash_of_options() const;
  uint64_t hash_of_directions() const;

  const hooks::PowerSgdOptions options_;
  hooks::PowerSgdStats stats_;
  GroupWatch watch_;
  BucketMemory residuals_;
  std::map<size_t, std::shared_ptr<Directions>> directions_;
};

}  // namespace lockstep::detail

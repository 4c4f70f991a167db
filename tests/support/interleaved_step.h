// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "lockstep/hook/comm_hook.h"
#include "lockstep/tensor/collectives.h"

namespace lockstep::testing {

// Plain descent inside of backward, the work shared by the ranks: each bucket
// is reduced on the Reducer's lane, and on another lane, which follows, each
// rank steps its own parameters of the bucket and sends them to all.
//
// Everything is queued when the hook is called, in the order of buckets and
// owners: the same on all ranks, whoever is late.
class InterleavedStep {
 public:
  explicit InterleavedStep(double rate) : rate_(rate) {}

  Future<at::Tensor> operator()(const GradBucket& bucket,
                                const HookContext& context) const {
    const auto lane = context.lane("steps");
    const Future<at::Tensor> reduced = hooks::all_reduce()(bucket, context);
    std::vector<Future<void>> parts = {reduced.done()};
    for (int owner = 0; owner < lane->size(); ++owner) {
      const std::vector<size_t> piece = piece_of(owner, *lane, bucket);
      if (owner == lane->rank()) post_step(*lane, bucket, piece, reduced);
      for (const size_t position : piece) {
        const at::Tensor weights = bucket.parameters()[position].detach();
        parts.push_back(broadcast(*lane, weights, owner)->future());
      }
    }
    return when_all(parts).then([buffer = bucket.buffer()] { return buffer; });
  }

 private:
  static std::vector<size_t> piece_of(int owner, const ProcessGroup& lane,
                                      const GradBucket& bucket) {
    std::vector<size_t> positions;
    for (size_t i = 0; i < bucket.members().size(); ++i) {
      const size_t ranks = static_cast<size_t>(lane.size());
      const bool is_its =
          bucket.members()[i].index % ranks == static_cast<size_t>(owner);
      if (is_its && bucket.is_used(i)) positions.push_back(i);
    }
    return positions;
  }

  void post_step(ProcessGroup& lane, const GradBucket& bucket,
                 const std::vector<size_t>& piece,
                 const Future<at::Tensor>& reduced) const {
    StepOptions options;
    options.after = reduced.done();
    options.fatal = true;  // or old weights would be sent
    lane.post(
        [bucket, piece, reduced, rate = rate_] {
          const at::NoGradGuard no_grad;
          // Ready, since the step follows it.
          const at::Tensor& result = reduced.get(Deadline::in({}));
          const auto gradients = bucket.gradients_of(result);
          for (const size_t i : piece) {
            bucket.parameters()[i].detach().sub_(gradients[i], rate);
          }
        },
        options);
  }

  double rate_;
};

}  // namespace lockstep::testing

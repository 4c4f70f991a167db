// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "hook/power_sgd_cut.h"
#include "hook/power_sgd_state.h"

namespace lockstep::detail {

// The matrices of one bucket in one step. Their gradients M become P Q^T, the
// same on all ranks, in three local steps with a collective after each of the
// first two:
//
//   project()        M gets its residual added; P = M Q, with the last Q
//     p() is summed over the ranks
//   project_back()   columns of P become orthonormal; Q = M^T P
//     q() is averaged over the ranks
//   expand()         M becomes P Q^T, and the residual what that leaves out
//
// Until expand() nothing in the state has changed: a step that fails before is
// a step that did not happen.
//
// Threads: made at hook time; then each method once, in order, in the lane.
class PowerSgdStep {
 public:
  // `residual` is like the bucket's buffer, or undefined. `share` is the
  // divisor of sums as a part of the number of ranks.
  PowerSgdStep(const GradBucket& bucket, const BucketCut& cut,
               const at::Tensor& residual, PowerSgdState& state, double share);

  void project();
  void project_back();
  void expand();

  // Of all matrices, one after the other, to be sent as they are.
  const at::Tensor& p() const { return p_; }
  const at::Tensor& q() const { return q_; }

 private:
  struct Matrix {
    at::Tensor values;    // rows x cols, in the bucket's buffer
    at::Tensor residual;  // like it; undefined without error feedback
    at::Tensor p;         // rank x rows, in p_: a row for each column of P
    at::Tensor q;         // rank x cols, in q_
    std::shared_ptr<Directions> directions;
    uint64_t seed;
  };
  // Matrices of one shape that are multiplied in one call.
  struct Batch {
    size_t begin;
    size_t count;
    at::Tensor values;  // count x rows x cols, from project() on
  };

  void add_matrix(const GradBucket& bucket, const MatrixPlace& place,
                  const at::Tensor& residual, PowerSgdState& state);
  void set_directions(const Matrix& matrix) const;
  at::Tensor values_of(const Batch& batch) const;

  const bool warm_start_;
  const double epsilon_;
  const float share_;
  std::vector<Matrix> matrices_;
  std::vector<Batch> batches_;
  at::Tensor p_;
  at::Tensor q_;
  int64_t p_end_ = 0;  // what matrices have taken of p_ and q_
  int64_t q_end_ = 0;
};

}  // namespace lockstep::detail

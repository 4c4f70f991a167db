// SPDX-License-Identifier: Apache-2.0
#include "hook/power_sgd_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>

#include "hook/low_rank.h"
#include "hook/orthogonalize.h"

namespace lockstep::detail {
namespace {

std::pair<int64_t, int64_t> shape_of_place(const MatrixPlace& place) {
  return {place.rows, place.cols};
}

std::vector<MatrixPlace> sorted_by_shape(std::vector<MatrixPlace> places) {
  std::stable_sort(places.begin(), places.end(),
                   [](const MatrixPlace& one, const MatrixPlace& other) {
                     return shape_of_place(one) < shape_of_place(other);
                   });
  return places;
}

at::Tensor matrix_in(const at::Tensor& flat, int64_t offset, int64_t rows,
                     int64_t cols) {
  return flat.narrow(0, offset, rows * cols).view({rows, cols});
}

// `first` and what lies behind it, as one tensor of so many matrices.
at::Tensor adjacent(const at::Tensor& first, size_t count) {
  return first.as_strided(
      {static_cast<int64_t>(count), first.size(0), first.size(1)},
      {first.numel(), first.size(1), 1});
}

// out = a b, for each of a batch.
void multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor out) {
  if (a.size(0) > 1) {
    at::bmm_out(out, a, b);
    return;
  }
  at::Tensor only = out.select(0, 0);
  at::mm_out(only, a.select(0, 0), b.select(0, 0));
}

bool is_finite(const at::Tensor& tensor) {
  const auto* const data = static_cast<const float*>(tensor.data_ptr());
  return std::all_of(data, data + tensor.numel(),
                     [](float x) { return std::isfinite(x); });
}

}  // namespace

// ---- At hook time.

PowerSgdStep::PowerSgdStep(const GradBucket& bucket, const BucketCut& cut,
                           const at::Tensor& residual, PowerSgdState& state,
                           double share)
    : warm_start_(state.options().warm_start),
      epsilon_(state.options().epsilon),
      share_(static_cast<float>(share)) {
  const hooks::PowerSgdOptions& options = state.options();
  const bool batched = options.batch_same_shapes;
  const std::vector<MatrixPlace> places =
      batched ? sorted_by_shape(cut.matrices) : cut.matrices;
  int64_t p_count = 0;
  int64_t q_count = 0;
  for (const MatrixPlace& one : places) {
    const int64_t rank = rank_for(one.rows, one.cols, options);
    p_count += rank * one.rows;
    q_count += rank * one.cols;
  }
  p_ = at::empty({p_count}, at::kFloat);
  q_ = at::empty({q_count}, at::kFloat);
  for (size_t i = 0; i < places.size(); ++i) {
    add_matrix(bucket, places[i], residual, state);
    const bool joins =
        batched && i > 0 &&
        shape_of_place(places[i]) == shape_of_place(places[i - 1]);
    if (joins) {
      ++batches_.back().count;
    } else {
      batches_.push_back({i, 1, {}});
    }
  }
}

void PowerSgdStep::add_matrix(const GradBucket& bucket,
                              const MatrixPlace& place,
                              const at::Tensor& residual,
                              PowerSgdState& state) {
  const int64_t rank = rank_for(place.rows, place.cols, state.options());
  Matrix one;
  one.values = matrix_in(bucket.buffer(), place.offset, place.rows, place.cols);
  if (residual.defined()) {
    one.residual = matrix_in(residual, place.offset, place.rows, place.cols);
  }
  one.p = matrix_in(p_, p_end_, rank, place.rows);
  one.q = matrix_in(q_, q_end_, rank, place.cols);
  one.directions = state.directions_of(place.key);
  one.seed = state.seed_for(place.key);
  p_end_ += one.p.numel();
  q_end_ += one.q.numel();
  matrices_.push_back(std::move(one));
}

// ---- In the lane.

void PowerSgdStep::project() {
  const at::NoGradGuard no_grad;
  for (Batch& batch : batches_) {
    const Matrix& first = matrices_[batch.begin];
    for (size_t i = 0; i < batch.count; ++i) {
      const Matrix& one = matrices_[batch.begin + i];
      set_directions(one);
      if (one.residual.defined()) one.values.add_(one.residual);
    }
    batch.values = values_of(batch);
    multiply(batch.values, adjacent(first.q, batch.count).transpose(1, 2),
             adjacent(first.p, batch.count).transpose(1, 2));
  }
}

void PowerSgdStep::set_directions(const Matrix& matrix) const {
  const at::Tensor& last = matrix.directions->columns;
  const bool is_warm =
      warm_start_ && last.defined() && last.sizes() == matrix.q.sizes();
  if (is_warm) {
    matrix.q.copy_(last);
  } else {
    matrix.q.zero_();
  }
  renew_directions(matrix.q, matrix.seed);
}

at::Tensor PowerSgdStep::values_of(const Batch& batch) const {
  if (batch.count == 1) return matrices_[batch.begin].values.unsqueeze(0);
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < batch.count; ++i) {
    all.push_back(matrices_[batch.begin + i].values);
  }
  return at::stack(all);
}

void PowerSgdStep::project_back() {
  const at::NoGradGuard no_grad;
  for (const Matrix& one : matrices_) orthogonalize(one.p, epsilon_);
  for (Batch& batch : batches_) {
    const Matrix& first = matrices_[batch.begin];
    multiply(batch.values.transpose(1, 2),
             adjacent(first.p, batch.count).transpose(1, 2),
             adjacent(first.q, batch.count).transpose(1, 2));
    batch.values.reset();
  }
}

// Q is the same on all ranks, so all see whether any gradient was not finite.
// Such a matrix keeps the residual it had, and gets new directions.
void PowerSgdStep::expand() {
  const at::NoGradGuard no_grad;
  for (const Matrix& one : matrices_) {
    const at::Tensor residual = is_finite(one.q) ? one.residual : at::Tensor();
    detail::expand(one.p, one.q, one.values, residual, share_);
    if (warm_start_) one.directions->columns = one.q;
  }
}

}  // namespace lockstep::detail

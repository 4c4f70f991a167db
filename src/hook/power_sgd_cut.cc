// SPDX-License-Identifier: Apache-2.0
#include "hook/power_sgd_cut.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::detail {
namespace {

// Rows and columns of a parameter's gradient as it lies in memory: that of a
// transposed matrix lies by column, so rows and columns change places.
std::pair<int64_t, int64_t> shape_of(const at::Tensor& parameter) {
  if (parameter.dim() < 2 || parameter.numel() == 0) return {0, 0};
  const int64_t rows = parameter.size(0);
  const int64_t cols = parameter.numel() / rows;
  const bool is_transposed = parameter.dim() == 2 &&
                             parameter.is_non_overlapping_and_dense() &&
                             parameter.stride(0) < parameter.stride(1);
  return is_transposed ? std::pair(cols, rows) : std::pair(rows, cols);
}

}  // namespace

int64_t rank_for(int64_t rows, int64_t cols,
                 const hooks::PowerSgdOptions& options) {
  const double thin = static_cast<double>(rows + cols) * options.rank;
  const double full = static_cast<double>(rows) * static_cast<double>(cols);
  if (thin * options.min_compression_rate >= full) return 0;
  return std::min({int64_t{options.rank}, rows, cols});
}

BucketCut cut_by_parameter(const GradBucket& bucket,
                           const hooks::PowerSgdOptions& options) {
  BucketCut cut;
  for (size_t i = 0; i < bucket.members().size(); ++i) {
    if (!bucket.is_used(i)) continue;
    const GradBucket::Member& member = bucket.members()[i];
    const auto [rows, cols] = shape_of(bucket.parameters()[i]);
    if (rank_for(rows, cols, options) > 0) {
      cut.matrices.push_back({member.index, member.offset, rows, cols});
    } else if (member.length > 0) {
      cut.rest.push_back({member.offset, member.length});
    }
  }
  return cut;
}

BucketCut cut_as_square(const GradBucket& bucket,
                        const hooks::PowerSgdOptions& options) {
  const int64_t count = bucket.buffer().numel();
  const auto side =
      static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t rows = side == 0 ? 0 : count / side;
  if (rank_for(rows, side, options) == 0) return {{}, {{0, count}}};
  BucketCut cut;
  cut.matrices.push_back({bucket.index(), 0, rows, side});
  const int64_t used = rows * side;
  if (used < count) cut.rest.push_back({used, count - used});
  return cut;
}

int64_t elements_sent(const BucketCut& cut,
                      const hooks::PowerSgdOptions& options) {
  int64_t count = 0;
  for (const MatrixPlace& one : cut.matrices) {
    count += (one.rows + one.cols) * rank_for(one.rows, one.cols, options);
  }
  for (const RestPlace& one : cut.rest) count += one.length;
  return count;
}

}  // namespace lockstep::detail

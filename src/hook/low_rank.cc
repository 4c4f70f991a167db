// SPDX-License-Identifier: Apache-2.0
#include "hook/low_rank.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// So many elements of a row at a time: their sums stay in registers.
constexpr size_t kBlock = 32;
using Sums = std::array<float, kBlock>;

// Element j of the result is the sum over k of row[k] * q[k * cols + j].
void multiply_block(const std::vector<float>& row, const float* q, size_t cols,
                    Sums& sums) {
  for (size_t j = 0; j < kBlock; ++j) sums[j] = row[0] * q[j];
  for (size_t k = 1; k < row.size(); ++k) {
    const float factor = row[k];
    const float* const column = q + k * cols;
    for (size_t j = 0; j < kBlock; ++j) sums[j] += factor * column[j];
  }
}

void multiply_rest(const std::vector<float>& row, const float* q, size_t cols,
                   size_t count, Sums& sums) {
  for (size_t j = 0; j < count; ++j) {
    sums[j] = row[0] * q[j];
    for (size_t k = 1; k < row.size(); ++k) {
      sums[j] += row[k] * q[k * cols + j];
    }
  }
}

// Where the number is known when this is compiled, it makes vectors of it.
template <class Count>
void store(const Sums& sums, Count count, float share, float* matrix,
           float* residual) {
  if (residual != nullptr) {
    Sums left;
    for (size_t j = 0; j < count; ++j) left[j] = matrix[j] - share * sums[j];
    std::copy_n(left.begin(), size_t{count}, residual);
  }
  std::copy_n(sums.begin(), size_t{count}, matrix);
}

float* floats_of(const at::Tensor& tensor) {
  LOCKSTEP_ASSERT(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat);
  return static_cast<float*>(tensor.data_ptr());
}

}  // namespace

void expand(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
            const at::Tensor& residual, float share) {
  const auto rank = static_cast<size_t>(p.size(0));
  const auto rows = static_cast<size_t>(p.size(1));
  const auto cols = static_cast<size_t>(q.size(1));
  LOCKSTEP_ASSERT(rank > 0 && matrix.numel() == p.size(1) * q.size(1));
  const float* const columns_of_p = floats_of(p);
  const float* const columns_of_q = floats_of(q);
  float* to = floats_of(matrix);
  float* left = residual.defined() ? floats_of(residual) : nullptr;
  constexpr std::integral_constant<size_t, kBlock> whole;
  std::vector<float> row(rank);
  Sums sums;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < rank; ++k) row[k] = columns_of_p[k * rows + i];
    for (size_t j = 0; j < cols; j += kBlock) {
      const size_t count = std::min(kBlock, cols - j);
      if (count == kBlock) {
        multiply_block(row, columns_of_q + j, cols, sums);
        store(sums, whole, share, to, left);
      } else {
        multiply_rest(row, columns_of_q + j, cols, count, sums);
        store(sums, count, share, to, left);
      }
      to += count;
      if (left != nullptr) left += count;
    }
  }
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "hook/orthogonalize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// One column.
struct Column {
  float* data;
  size_t length;
};

Column column_of(const at::Tensor& columns, int64_t k) {
  LOCKSTEP_ASSERT(columns.is_contiguous() && columns.dim() == 2);
  return {static_cast<float*>(columns.data_ptr()) + k * columns.size(1),
          static_cast<size_t>(columns.size(1))};
}

// Several sums side by side, which the processor adds at the same time.
template <class B>
double dot(const double* a, const B* b, size_t length) {
  constexpr size_t kLanes = 4;
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= length; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * static_cast<double>(b[i + lane]);
    }
  }
  for (; i < length; ++i) sums[0] += a[i] * static_cast<double>(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double norm(const std::vector<double>& x) {
  return std::sqrt(dot(x.data(), x.data(), x.size()));
}

// Takes from `x` its parts in the directions of `done` columns, and returns the
// length of what is left. Where most of x was taken, what is left has rounding
// errors in these directions, so they are taken once more. If even that takes
// most of it, nothing else was there: zero.
double remove_directions(std::vector<double>& x, const at::Tensor& columns,
                         int64_t done) {
  constexpr int kPasses = 4;
  double before = norm(x);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (int64_t k = 0; k < done; ++k) {
      const Column one = column_of(columns, k);
      const double part = dot(x.data(), one.data, one.length);
      for (size_t i = 0; i < one.length; ++i) {
        x[i] -= part * static_cast<double>(one.data[i]);
      }
    }
    const double after = norm(x);
    if (!(after < before / 2)) return after;  // or NaN
    before = after;
  }
  return 0;
}

// splitmix64: each call gives the next of 2^64 numbers.
uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t x = state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The sum of four uniform numbers is close to normal, and needs no function
// that another system's library computes otherwise.
void fill_random(Column column, uint64_t& state) {
  constexpr double kMean = 4 * 32767.5;
  const double deviation = std::sqrt(4 * (65536.0 * 65536.0 - 1) / 12);
  for (size_t i = 0; i < column.length; ++i) {
    const uint64_t bits = next_random(state);
    const uint64_t sum = (bits & 0xffff) + ((bits >> 16) & 0xffff) +
                         ((bits >> 32) & 0xffff) + (bits >> 48);
    column.data[i] =
        static_cast<float>((static_cast<double>(sum) - kMean) / deviation);
  }
}

bool is_usable(Column column) {
  float* const end = column.data + column.length;
  return std::all_of(column.data, end,
                     [](float x) { return std::isfinite(x); }) &&
         std::any_of(column.data, end, [](float x) { return x != 0; });
}

}  // namespace

void orthogonalize(const at::Tensor& columns, double epsilon) {
  for (int64_t k = 0; k < columns.size(0); ++k) {
    const Column column = column_of(columns, k);
    std::vector<double> x(column.data, column.data + column.length);
    const double length = remove_directions(x, columns, k);
    if (!std::isfinite(length)) {
      std::fill_n(column.data, column.length,
                  std::numeric_limits<float>::quiet_NaN());
    } else if (length == 0) {
      std::fill_n(column.data, column.length, 0.F);
    } else {
      const double factor = 1 / (length + epsilon);
      std::transform(x.begin(), x.end(), column.data, [&](double one) {
        return static_cast<float>(one * factor);
      });
    }
  }
}

void renew_directions(const at::Tensor& columns, uint64_t seed) {
  uint64_t state = seed;
  for (int64_t k = 0; k < columns.size(0); ++k) {
    const Column column = column_of(columns, k);
    if (!is_usable(column)) fill_random(column, state);
  }
  orthogonalize(columns);
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/hook/grad_bucket.h"
#include "lockstep/hook/power_sgd.h"

// What PowerSGD makes of a bucket: matrices that are compressed, and the rest.
// Depends on nothing but shapes and options, so all ranks decide the same.
namespace lockstep::detail {

// A matrix in the bucket's buffer, by row.
struct MatrixPlace {
  size_t key;  // whose directions it has
  int64_t offset;
  int64_t rows;
  int64_t cols;
};

// A run of elements that travel as they are.
struct RestPlace {
  int64_t offset;
  int64_t length;
};

struct BucketCut {
  std::vector<MatrixPlace> matrices;
  std::vector<RestPlace> rest;
};

// As many columns as PowerSGD gives such a matrix; 0: it is not compressed.
int64_t rank_for(int64_t rows, int64_t cols,
                 const hooks::PowerSgdOptions& options);

// A matrix for each parameter; keys are parameter indices. Parameters that no
// rank has used are left out altogether.
BucketCut cut_by_parameter(const GradBucket& bucket,
                           const hooks::PowerSgdOptions& options);

// One matrix, about square, from the beginning of the buffer; what does not
// fill a row is the rest. The key is the bucket's index.
BucketCut cut_as_square(const GradBucket& bucket,
                        const hooks::PowerSgdOptions& options);

// Elements sent for it.
int64_t elements_sent(const BucketCut& cut,
                      const hooks::PowerSgdOptions& options);

}  // namespace lockstep::detail

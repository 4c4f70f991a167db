// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

// Directions for PowerSGD. libtorch's own functions give other last digits on
// another processor; with these, ranks on different machines get the same bits.
// Columns are float32, each in one piece: a contiguous tensor of columns x
// length.
namespace lockstep::detail {

// Makes columns orthonormal, from the first to the last; `columns` is changed
// in place. A column that depends on the columns before it becomes zero if
// nothing but rounding errors in their directions is left of it. A column that
// is not finite becomes NaN.
//
// With an epsilon, columns are a little shorter than 1: they are divided by
// their length plus epsilon.
void orthogonalize(const at::Tensor& columns, double epsilon = 0);

// Replaces columns that are zero or not finite by random ones, which depend on
// `seed` only, and makes all orthonormal: directions to begin with.
void renew_directions(const at::Tensor& columns, uint64_t seed);

}  // namespace lockstep::detail

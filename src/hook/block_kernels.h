// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The inner loops of BlockCodec: one block of floats to codes and back, for the
// instruction set of the processor that runs them. All instruction sets give
// the same bits: float operations are the same ones in the same order, none is
// fused.
namespace lockstep::detail {

// Codes lie in words of 32 bits, 32 / bits codes in each. Of a block with W
// words, word w holds in its lowest bits the code of element w, above it that
// of element W + w, then that of 2 W + w and so on: so neighbouring elements
// are in neighbouring words, which vectors like. Missing codes are 0.
constexpr size_t code_words(int bits, size_t count) {
  const size_t codes_each = 32 / static_cast<size_t>(bits);
  return (count + codes_each - 1) / codes_each;
}

struct BlockKernels {
  // Writes the codes of `count` values to `words` and returns their scale: NaN
  // if a value is not finite, and the codes are 0 then. `key` is where the
  // random numbers of rounding come from. `errors`, unless null, become values
  // minus decoded values, or 0 if a value is not finite; they may be the values
  // themselves.
  float (*encode)(const float* values, size_t count, uint32_t key,
                  uint32_t* words, float* errors);
  // Writes, or adds, the decoded values to `values`.
  void (*decode)(const uint32_t* words, float scale, size_t count,
                 float* values);
  void (*decode_add)(const uint32_t* words, float scale, size_t count,
                     float* values);
};

// For codes of 8, 4 or 1 bits.
BlockKernels block_kernels(int bits);

// sums += values * factor, the product rounded before it is added.
void add_scaled(const float* values, float factor, size_t count, float* sums);
// values *= factor.
void scale_floats(float* values, float factor, size_t count);

}  // namespace lockstep::detail

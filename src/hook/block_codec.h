// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "hook/block_kernels.h"

namespace lockstep::detail {

// Floats as codes of a few bits, with one float32 scale for each block of
// neighbouring elements.
//
//   BlockCodec codec(8, 512);
//   std::vector<uint32_t> words(codec.word_count(n));
//   codec.encode(values, n, random_key({seed, step}), words.data(), memory);
//   codec.decode(words.data(), n, results);
//
// bits 8, 4  A value becomes a whole multiple of the scale, which is the
//            largest absolute value of the block divided by 127 or 7. One of
//            the two multiples beside the value is chosen at random, so that
//            its expectation is the value: |error| <= scale. What is a multiple
//            already stays as it is. Scales are at least FLT_MIN, except for
//            blocks of zeros, whose scale is 0. No result is larger than the
//            largest value, unless the scale is FLT_MIN.
// bits 1     A value becomes the scale with the sign of the value; the scale is
//            the mean of the block's absolute values. |error| is at most the
//            largest absolute value of the block.
//
// A block with a value that is not finite has the scale NaN: all its results
// are NaN.
//
// An encoding is all scales, then the codes of block after block, each in whole
// words of 32 bits (code_words). Its bits depend on the values and the key
// alone, on whatever processor it was made.
//
// Threads: const methods from any thread.
class BlockCodec {
 public:
  BlockCodec(int bits, size_t block);  // bits: 8, 4 or 1

  int bits() const { return bits_; }
  size_t block() const { return block_; }

  // The length of an encoding of `count` values.
  size_t word_count(size_t count) const;

  // With `memory`, encodes values + memory and leaves in memory what the
  // encoding is short of; in blocks that are not finite, 0.
  void encode(const float* values, size_t count, uint64_t key, uint32_t* words,
              float* memory) const;

  void decode(const uint32_t* words, size_t count, float* values) const;

  // Decodes `input_count` encodings that lie one after the other, sums them in
  // this order, multiplies by `factor` and encodes the result. With `memory`,
  // adds to it what the encoding is short of, times `memory_factor`.
  struct Sum {
    const uint32_t* inputs;
    int input_count;
    float factor;
    float memory_factor;
  };
  void encode_sum(const Sum& sum, size_t count, uint64_t key, uint32_t* words,
                  float* memory) const;

 private:
  struct Block {
    size_t first;   // element
    size_t length;  // in elements
    size_t codes;   // where its codes begin, in words
    uint32_t key;
  };
  // Calls body(index, Block) for all blocks of `count` values.
  template <class Body>
  void for_each_block(size_t count, uint64_t key, const Body& body) const;

  int bits_;
  size_t block_;
  BlockKernels kernels_;
};

// A key that depends on all of the numbers: the same for the same numbers.
uint64_t random_key(std::initializer_list<uint64_t> numbers);

// Divides `count` values into pieces of whole blocks, as even as they can be;
// where there are too few blocks, some are empty. Piece i begins at the i-th
// number and ends at the next: one number more than there are pieces.
std::vector<size_t> cut_at_blocks(size_t count, size_t block, int pieces);

}  // namespace lockstep::detail

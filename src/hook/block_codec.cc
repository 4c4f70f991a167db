// SPDX-License-Identifier: Apache-2.0
#include "hook/block_codec.h"

#include <algorithm>
#include <cstring>

namespace lockstep::detail {
namespace {

// The step and the finish of the SplitMix64 generator: neighbouring numbers
// become unrelated ones.
uint64_t scrambled(uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31);
}

void put_float(float value, uint32_t* word) {
  std::memcpy(word, &value, sizeof(value));
}
float float_at(const uint32_t* word) {
  float value;
  std::memcpy(&value, word, sizeof(value));
  return value;
}

size_t blocks_of(size_t count, size_t block) {
  return (count + block - 1) / block;
}

}  // namespace

BlockCodec::BlockCodec(int bits, size_t block)
    : bits_(bits), block_(block), kernels_(block_kernels(bits)) {}

size_t BlockCodec::word_count(size_t count) const {
  const size_t whole = count / block_;
  return blocks_of(count, block_) + whole * code_words(bits_, block_) +
         code_words(bits_, count % block_);
}

template <class Body>
void BlockCodec::for_each_block(size_t count, uint64_t key,
                                const Body& body) const {
  const size_t blocks = blocks_of(count, block_);
  for (size_t i = 0; i < blocks; ++i) {
    const size_t first = i * block_;
    body(i, Block{first, std::min(block_, count - first),
                  blocks + i * code_words(bits_, block_),
                  static_cast<uint32_t>(scrambled(key + i) >> 32)});
  }
}

void BlockCodec::encode(const float* values, size_t count, uint64_t key,
                        uint32_t* words, float* memory) const {
  for_each_block(count, key, [&](size_t i, const Block& block) {
    const float* in = values + block.first;
    float* errors = nullptr;
    if (memory != nullptr) {
      errors = memory + block.first;
      add_scaled(in, 1, block.length, errors);
      in = errors;
    }
    put_float(kernels_.encode(in, block.length, block.key, words + block.codes,
                              errors),
              words + i);
  });
}

void BlockCodec::decode(const uint32_t* words, size_t count,
                        float* values) const {
  for_each_block(count, 0, [&](size_t i, const Block& block) {
    kernels_.decode(words + block.codes, float_at(words + i), block.length,
                    values + block.first);
  });
}

void BlockCodec::encode_sum(const Sum& sum, size_t count, uint64_t key,
                            uint32_t* words, float* memory) const {
  const size_t stride = word_count(count);
  std::vector<float> sums(std::min(block_, count));
  for_each_block(count, key, [&](size_t i, const Block& block) {
    for (int rank = 0; rank < sum.input_count; ++rank) {
      const uint32_t* const in =
          sum.inputs + static_cast<size_t>(rank) * stride;
      (rank == 0 ? kernels_.decode : kernels_.decode_add)(
          in + block.codes, float_at(in + i), block.length, sums.data());
    }
    scale_floats(sums.data(), sum.factor, block.length);
    float* const errors = memory != nullptr ? sums.data() : nullptr;
    put_float(kernels_.encode(sums.data(), block.length, block.key,
                              words + block.codes, errors),
              words + i);
    if (memory != nullptr) {
      add_scaled(errors, sum.memory_factor, block.length, memory + block.first);
    }
  });
}

uint64_t random_key(std::initializer_list<uint64_t> numbers) {
  uint64_t key = 0;
  for (const uint64_t number : numbers) key = scrambled(key ^ number);
  return key;
}

std::vector<size_t> cut_at_blocks(size_t count, size_t block, int pieces) {
  const size_t blocks = blocks_of(count, block);
  const auto parts = static_cast<size_t>(pieces);
  std::vector<size_t> cuts;
  for (size_t i = 0; i <= parts; ++i) {
    cuts.push_back(std::min(count, blocks * i / parts * block));
  }
  return cuts;
}

}  // namespace lockstep::detail

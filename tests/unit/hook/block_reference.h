// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep::testing {

// What BlockCodec does, computed one element after the other, as its header
// says it.
class BlockReference {
 public:
  BlockReference(int bits, size_t block) : bits_(bits), block_(block) {}

  // As BlockCodec::encode; `memory` is empty or has an element for each value.
  std::vector<uint32_t> encode(const std::vector<float>& values, uint64_t key,
                               std::vector<float>& memory) const {
    std::vector<uint32_t> scales;
    std::vector<uint32_t> codes;
    for (size_t first = 0; first < values.size(); first += block_) {
      std::vector<float> part;
      const size_t end = std::min(first + block_, values.size());
      for (size_t i = first; i < end; ++i) {
        part.push_back(memory.empty() ? values[i] : values[i] + memory[i]);
      }
      const float scale = scale_of(part);
      const auto block_key = static_cast<uint32_t>(mix64(key++) >> 32);
      const size_t per_word = 32 / static_cast<size_t>(bits_);
      std::vector<uint32_t> words((part.size() + per_word - 1) / per_word);
      for (size_t i = 0; i < part.size(); ++i) {
        const bool is_finite = !std::isnan(scale);
        const uint32_t code =
            is_finite
                ? code_of(part[i], scale, block_key + static_cast<uint32_t>(i))
                : 0;
        const size_t place = i / words.size();
        words[i % words.size()] |= code << (place * static_cast<size_t>(bits_));
        if (!memory.empty()) {
          memory[first + i] = is_finite ? part[i] - value_of(code, scale) : 0;
        }
      }
      scales.push_back(bits_of(scale));
      codes.insert(codes.end(), words.begin(), words.end());
    }
    scales.insert(scales.end(), codes.begin(), codes.end());
    return scales;
  }

  std::vector<float> decode(const std::vector<uint32_t>& words,
                            size_t count) const {
    const size_t blocks = (count + block_ - 1) / block_;
    const size_t per_word = 32 / static_cast<size_t>(bits_);
    std::vector<float> values;
    size_t codes = blocks;
    for (size_t block = 0; block < blocks; ++block) {
      float scale;
      std::memcpy(&scale, &words[block], sizeof(scale));
      const size_t length = std::min(block_, count - block * block_);
      const size_t word_count = (length + per_word - 1) / per_word;
      for (size_t i = 0; i < length; ++i) {
        const size_t shift = i / word_count * static_cast<size_t>(bits_);
        const uint32_t code = (words[codes + i % word_count] >> shift) &
                              ((uint32_t{1} << bits_) - 1);
        values.push_back(value_of(code, scale));
      }
      codes += word_count;
    }
    return values;
  }

 private:
  static uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  static uint64_t mix64(uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  static uint32_t mix32(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352dU;
    x = (x ^ (x >> 15)) * 0x846ca68bU;
    return x ^ (x >> 16);
  }

  float top() const { return bits_ == 8 ? 127.F : 7.F; }

  float scale_of(const std::vector<float>& part) const {
    double sums[16] = {};
    float largest = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      if (!std::isfinite(part[i])) {
        return std::numeric_limits<float>::quiet_NaN();
      }
      largest = std::max(largest, std::fabs(part[i]));
      sums[i % 16] += static_cast<double>(std::fabs(part[i]));
    }
    if (bits_ == 1) {
      const auto pair = [&](int i) { return sums[i] + sums[i + 8]; };
      const auto four = [&](int i) { return pair(i) + pair(i + 4); };
      const double sum = (four(0) + four(2)) + (four(1) + four(3));
      return static_cast<float>(sum / static_cast<double>(part.size()));
    }
    if (largest == 0) return 0;
    float scale = largest / top();
    if (scale * top() > largest) scale = std::nextafter(scale, 0.F);
    return std::max(scale, FLT_MIN);
  }

  uint32_t code_of(float value, float scale, uint32_t counter) const {
    if (bits_ == 1) return std::signbit(value) ? 1 : 0;
    if (scale == 0) return 0;
    const float exact = std::fabs(value) * (1 / scale);
    float level = std::floor(exact);
    const auto draw = static_cast<float>(mix32(counter) >> 8) / 16777216.F;
    if (exact - level > draw) level += 1;
    level = std::min(level, top());
    const auto code = static_cast<int>(value < 0 ? -level : level);
    return static_cast<uint32_t>(code) & ((uint32_t{1} << bits_) - 1);
  }

  float value_of(uint32_t code, float scale) const {
    if (bits_ == 1) return code == 1 ? -scale : scale;
    const int sign_bit = 1 << (bits_ - 1);
    const int level = (static_cast<int>(code) ^ sign_bit) - sign_bit;
    return static_cast<float>(level) * scale;
  }

  const int bits_;
  const size_t block_;
};

}  // namespace lockstep::testing

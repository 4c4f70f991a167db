// SPDX-License-Identifier: Apache-2.0
// The same instruction sets as for reductions (collective/reduce_targets.h).
#ifndef LOCKSTEP_FEW_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hook/block_kernels.cc"
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "hook/block_kernels.h"

// No iteration of these loops sees what another has written, though values may
// be changed in place.
#undef LOCKSTEP_INDEPENDENT
#if HWY_COMPILER_CLANG
#pragma clang diagnostic ignored "-Wpass-failed"
#define LOCKSTEP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT _Pragma("GCC ivdep")
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::detail {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE uint32_t raw_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
HWY_INLINE float from_raw_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A well mixed number for each i, the shifts and factors being those of Chris
// Wellons' search for 32-bit hashes with low bias (public domain).
HWY_INLINE uint32_t mixed(uint32_t i) {
  i ^= i >> 16;
  i *= 0x7feb352dU;
  i ^= i >> 15;
  i *= 0x846ca68bU;
  return i ^ (i >> 16);
}

// The bits of the largest absolute value; as integers they are in the order of
// the values, with infinity and then NaN at the end.
constexpr uint32_t kInfinity = 0x7f800000U;
HWY_INLINE uint32_t largest_bits(const float* values, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = raw_bits(values[i]) & 0x7fffffffU;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// A block that has nothing to say but its scale.
HWY_INLINE void clear(size_t count, size_t word_count, uint32_t* words,
                      float* errors) {
  std::fill(words, words + word_count, 0U);
  if (errors != nullptr) std::fill(errors, errors + count, 0.F);
}

// How many elements have their codes at position `place` of the words.
HWY_INLINE size_t elements_at(size_t place, size_t word_count, size_t count) {
  const size_t first = std::min(place * word_count, count);
  return std::min(word_count, count - first);
}

// ---- 8 and 4 bits: a signed level of -top to top, times the scale.

template <int kBits>
constexpr int kTopLevel = (1 << (kBits - 1)) - 1;

// The largest scale with which no decoded value exceeds the largest value, and
// a normal number, so that neither it nor its inverse is lost.
template <int kBits>
HWY_INLINE float scale_of(float largest) {
  constexpr auto kTop = static_cast<float>(kTopLevel<kBits>);
  float scale = largest / kTop;
  if (scale * kTop > largest) scale = from_raw_bits(raw_bits(scale) - 1);
  return scale < FLT_MIN ? FLT_MIN : scale;
}

template <int kBits, bool kErrors>
HWY_INLINE void encode_levels_with(float scale, const float* values,
                                   size_t count, uint32_t key, uint32_t* words,
                                   float* errors) {
  const size_t word_count = code_words(kBits, count);
  const float inverse = 1 / scale;
  for (int place = 0; place < 32 / kBits; ++place) {
    const size_t first = static_cast<size_t>(place) * word_count;
    const auto end = static_cast<uint32_t>(
        elements_at(static_cast<size_t>(place), word_count, count));
    const float* const in = values + first;
    const uint32_t counter = key + static_cast<uint32_t>(first);
    const int shift = place * kBits;
    LOCKSTEP_INDEPENDENT
    for (uint32_t w = 0; w < end; ++w) {
      const float value = in[w];
      // |value| lies between two levels: the upper one is chosen with the
      // probability that is the distance to the lower one.
      const float exact = std::fabs(value) * inverse;
      const auto lower = static_cast<int32_t>(exact);
      const float distance = exact - static_cast<float>(lower);
      const auto draw = static_cast<int32_t>(mixed(counter + w) >> 8);
      const bool is_upper = distance * 0x1p24F > static_cast<float>(draw);
      const int32_t rounded = lower + (is_upper ? 1 : 0);
      const int32_t level =
          rounded > kTopLevel<kBits> ? kTopLevel<kBits> : rounded;
      const int32_t code = value < 0 ? -level : level;
      words[w] |= (static_cast<uint32_t>(code) & ((1U << kBits) - 1)) << shift;
      if (kErrors) errors[first + w] = value - static_cast<float>(code) * scale;
    }
  }
}

template <int kBits>
float encode_levels(const float* values, size_t count, uint32_t key,
                    uint32_t* words, float* errors) {
  const uint32_t largest = largest_bits(values, count);
  if (largest == 0 || largest >= kInfinity) {
    clear(count, code_words(kBits, count), words, errors);
    return largest == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = scale_of<kBits>(from_raw_bits(largest));
  std::fill(words, words + code_words(kBits, count), 0U);
  errors != nullptr ? encode_levels_with<kBits, true>(scale, values, count, key,
                                                      words, errors)
                    : encode_levels_with<kBits, false>(scale, values, count,
                                                       key, words, errors);
  return scale;
}

template <int kBits, bool kAdd>
void decode_levels(const uint32_t* words, float scale, size_t count,
                   float* values) {
  const size_t word_count = code_words(kBits, count);
  for (int place = 0; place < 32 / kBits; ++place) {
    const size_t first = static_cast<size_t>(place) * word_count;
    const size_t end =
        elements_at(static_cast<size_t>(place), word_count, count);
    float* const out = values + first;
    const int shift = 32 - kBits - place * kBits;  // the sign bit goes on top
    LOCKSTEP_INDEPENDENT
    for (size_t w = 0; w < end; ++w) {
      const int32_t code =
          static_cast<int32_t>(words[w] << shift) >> (32 - kBits);
      const float value = static_cast<float>(code) * scale;
      out[w] = kAdd ? out[w] + value : value;
    }
  }
}

// ---- 1 bit: the sign; the scale is the mean of the absolute values.

// In double, so that a sum of large values is finite; in 16 sums, so that the
// order of additions is the same however wide vectors are.
HWY_INLINE float mean_size(const float* values, size_t count) {
  double sums[16] = {};
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (size_t k = 0; k < 16; ++k) {
      sums[k] += static_cast<double>(std::fabs(values[i + k]));
    }
  }
  for (size_t k = 0; i + k < count; ++k) {
    sums[k] += static_cast<double>(std::fabs(values[i + k]));
  }
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  }
  return static_cast<float>(sums[0] / static_cast<double>(count));
}

float encode_signs(const float* values, size_t count, uint32_t /*key*/,
                   uint32_t* words, float* errors) {
  const size_t word_count = code_words(1, count);
  if (largest_bits(values, count) >= kInfinity) {
    clear(count, word_count, words, errors);
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = mean_size(values, count);
  std::fill(words, words + word_count, 0U);
  for (size_t place = 0; place < 32; ++place) {
    const size_t end = elements_at(place, word_count, count);
    const float* const in = values + place * word_count;
    LOCKSTEP_INDEPENDENT
    for (size_t w = 0; w < end; ++w) {
      words[w] |= (raw_bits(in[w]) >> 31) << place;
    }
  }
  if (errors == nullptr) return scale;
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    const uint32_t sign = raw_bits(values[i]) & 0x80000000U;
    errors[i] = values[i] - from_raw_bits(raw_bits(scale) | sign);
  }
  return scale;
}

template <bool kAdd>
void decode_signs(const uint32_t* words, float scale, size_t count,
                  float* values) {
  const size_t word_count = code_words(1, count);
  const uint32_t size = raw_bits(scale);
  for (size_t place = 0; place < 32; ++place) {
    const size_t end = elements_at(place, word_count, count);
    float* const out = values + place * word_count;
    LOCKSTEP_INDEPENDENT
    for (size_t w = 0; w < end; ++w) {
      const uint32_t sign = (words[w] << (31 - place)) & 0x80000000U;
      const float value = from_raw_bits(size | sign);
      out[w] = kAdd ? out[w] + value : value;
    }
  }
}

}  // namespace

BlockKernels choose_block_kernels(int bits) {
  if (bits == 8) {
    return {encode_levels<8>, decode_levels<8, false>, decode_levels<8, true>};
  }
  if (bits == 4) {
    return {encode_levels<4>, decode_levels<4, false>, decode_levels<4, true>};
  }
  return {encode_signs, decode_signs<false>, decode_signs<true>};
}

void add_scaled_floats(const float* values, float factor, size_t count,
                       float* sums) {
  LOCKSTEP_INDEPENDENT
  for (size_t i = 0; i < count; ++i) sums[i] += values[i] * factor;
}

void multiply_floats(float* values, float factor, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detail {

HWY_EXPORT(choose_block_kernels);
HWY_EXPORT(add_scaled_floats);
HWY_EXPORT(multiply_floats);

BlockKernels block_kernels(int bits) {
  return HWY_DYNAMIC_DISPATCH(choose_block_kernels)(bits);
}

void add_scaled(const float* values, float factor, size_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(add_scaled_floats)(values, factor, count, sums);
}

void scale_floats(float* values, float factor, size_t count) {
  HWY_DYNAMIC_DISPATCH(multiply_floats)(values, factor, count);
}

}  // namespace lockstep::detail
#endif

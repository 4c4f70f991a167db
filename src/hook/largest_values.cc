// SPDX-License-Identifier: Apache-2.0
#include "hook/largest_values.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace lockstep::detail {
namespace {

// The bits of |value|: as integers they are in the order of the values, with
// infinity and then NaN at the end.
inline uint32_t size_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffffU;
}
constexpr uint32_t kInfiniteSize = 0x7f800000U;

// Values with the same upper bits are in one bin: 8 bins for each power of two.
constexpr int kBinShift = 20;
constexpr size_t kBinCount = size_t{1} << (31 - kBinShift);

// In four tables, since neighbours often are in one bin, and counting the same
// number twice in a row is slow.
std::vector<uint32_t> count_by_bin(const float* values, size_t count) {
  std::vector<uint32_t> tables(4 * kBinCount);
  uint32_t* const table = tables.data();
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t k = 0; k < 4; ++k) {
      ++table[k * kBinCount + (size_bits(values[i + k]) >> kBinShift)];
    }
  }
  for (; i < count; ++i) ++table[size_bits(values[i]) >> kBinShift];
  for (size_t bin = 0; bin < kBinCount; ++bin) {
    for (size_t k = 1; k < 4; ++k) table[bin] += table[k * kBinCount + bin];
  }
  tables.resize(kBinCount);
  return tables;
}

// All that are larger than `size` are taken, and `equal_count` of those that
// are equal.
struct Threshold {
  uint32_t size;
  size_t equal_count;
};

Threshold find_threshold(const float* values, size_t count, size_t wanted) {
  const std::vector<uint32_t> bins = count_by_bin(values, count);
  size_t bin = kBinCount - 1;
  for (; bins[bin] < wanted; --bin) wanted -= bins[bin];
  std::vector<uint32_t> sizes;  // of the bin in which the threshold lies
  sizes.reserve(bins[bin]);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t size = size_bits(values[i]);
    if (size >> kBinShift == bin) sizes.push_back(size);
  }
  const auto last = sizes.begin() + static_cast<ptrdiff_t>(wanted - 1);
  std::nth_element(sizes.begin(), last, sizes.end(), std::greater<>());
  const auto larger = std::count_if(
      sizes.begin(), last, [&](uint32_t size) { return size > *last; });
  return {*last, wanted - static_cast<size_t>(larger)};
}

}  // namespace

bool find_largest(const float* values, size_t count, size_t wanted,
                  uint32_t* indices) {
  Threshold threshold = find_threshold(values, count, wanted);
  const uint32_t* const end = indices + wanted;
  for (size_t i = 0; indices < end; ++i) {
    const uint32_t size = size_bits(values[i]);
    if (size < threshold.size) continue;
    if (size == threshold.size) {
      if (threshold.equal_count == 0) continue;
      --threshold.equal_count;
    }
    *indices++ = static_cast<uint32_t>(i);
  }
  return threshold.size < kInfiniteSize;
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "bench_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench_element.h"

namespace lockstep::tool {
namespace {

constexpr double kPremulFactor = 2;

uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21f0aaad;
  x = (x ^ (x >> 15)) * 0x735a2d97;
  return x ^ (x >> 15);
}

// `so_far op value`, the inputs of a rank after those of the ranks before.
double combined(ReduceOp::Kind kind, double so_far, double value) {
  const auto a = static_cast<int64_t>(so_far);
  const auto b = static_cast<int64_t>(value);
  switch (kind) {
    case ReduceOp::kProduct:
      return so_far * value;
    case ReduceOp::kMin:
      return std::min(so_far, value);
    case ReduceOp::kMax:
      return std::max(so_far, value);
    case ReduceOp::kBand:
      return static_cast<double>(a & b);
    case ReduceOp::kBor:
      return static_cast<double>(a | b);
    case ReduceOp::kBxor:
      return static_cast<double>(a ^ b);
    default:
      return so_far + value;
  }
}

}  // namespace

ReduceOp BenchData::op() const {
  return kind_ == ReduceOp::kPremulSum ? ReduceOp::premul_sum(kPremulFactor)
                                       : ReduceOp(kind_);
}

// 0 to 4; for products mostly 1, so that they stay small; for bool 0 or 1.
double BenchData::input_at(int rank, size_t index) const {
  const auto place = static_cast<uint32_t>(index % kPeriod);
  const uint32_t random =
      mix(place + 1024 * mix(static_cast<uint32_t>(rank) + 4096 * seed_));
  if (dtype_ == DType::kBool) {
    return kind_ == ReduceOp::kProduct ? random % 8 > 0 : random % 2;
  }
  if (kind_ == ReduceOp::kProduct) {
    return (place + static_cast<uint32_t>(rank) + seed_) % 16 == 0 ? 2 : 1;
  }
  return random % 5;
}

double BenchData::result_at(size_t index) const {
  double result = input_at(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    result = combined(kind_, result, input_at(rank, index));
  }
  if (kind_ == ReduceOp::kAverage) return result / ranks_;
  if (kind_ == ReduceOp::kPremulSum) return result * kPremulFactor;
  if (dtype_ == DType::kBool) return std::min(result, 1.0);
  return result;
}

// One period of elements, or all `count` if those are fewer.
template <class ValueAt>
ByteVector BenchData::period_of(size_t count, ValueAt value_at) const {
  const size_t width = size_of(dtype_);
  ByteVector bytes(std::min(count, kPeriod) * width);
  for (size_t i = 0; i * width < bytes.size(); ++i) {
    put_element(bytes.data() + i * width, dtype_, value_at(i));
  }
  return bytes;
}

void BenchData::fill(const Buffer& buffer, int rank, size_t first) const {
  const ByteVector period = period_of(
      buffer.count, [&](size_t i) { return input_at(rank, first + i); });
  auto* const data = static_cast<std::byte*>(buffer.data);
  for (size_t done = 0; done < buffer.bytes(); done += period.size()) {
    std::memcpy(data + done, period.data(),
                std::min(period.size(), buffer.bytes() - done));
  }
}

// Compares a period at a time, and looks closer only where one differs.
template <class IsFine>
size_t BenchData::wrong_elements(const Buffer& buffer, const ByteVector& period,
                                 IsFine is_fine) const {
  const size_t width = size_of(dtype_);
  const auto* const data = static_cast<const std::byte*>(buffer.data);
  size_t wrong = 0;
  for (size_t done = 0; done < buffer.bytes(); done += period.size()) {
    const size_t length = std::min(period.size(), buffer.bytes() - done);
    if (std::memcmp(data + done, period.data(), length) == 0) continue;
    for (size_t at = 0; at < length; at += width) {
      const std::byte* const element = data + done + at;
      if (std::memcmp(element, period.data() + at, width) != 0 &&
          !is_fine(at / width, element)) {
        ++wrong;
      }
    }
  }
  return wrong;
}

size_t BenchData::wrong_input(const Buffer& buffer, int rank,
                              size_t first) const {
  const ByteVector period = period_of(
      buffer.count, [&](size_t i) { return input_at(rank, first + i); });
  return wrong_elements(buffer, period,
                        [](size_t, const std::byte*) { return false; });
}

size_t BenchData::wrong_result(const Buffer& buffer, size_t first) const {
  const auto value_at = [&](size_t i) { return result_at(first + i); };
  const bool rounds = kind_ == ReduceOp::kAverage && is_floating(dtype_);
  return wrong_elements(buffer, period_of(buffer.count, value_at),
                        [&](size_t i, const std::byte* at) {
                          return rounds && is_near(at, dtype_, value_at(i));
                        });
}

}  // namespace lockstep::tool

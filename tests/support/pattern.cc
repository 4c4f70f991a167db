// SPDX-License-Identifier: Apache-2.0
#include "support/pattern.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "collective/half.h"

namespace lockstep::testing {
namespace {

constexpr size_t kFence = 64;
constexpr std::byte kFenceByte{0xA5};
constexpr std::byte kUntouchedByte{0x5A};

uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352d;
  x = (x ^ (x >> 15)) * 0x846ca68b;
  return x ^ (x >> 16);
}

template <class T>
void put_as(const Buffer& buffer, size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(buffer.data) + index * sizeof(T), &value,
              sizeof(T));
}
template <class T>
T get_as(const Buffer& buffer, size_t index) {
  T value;
  std::memcpy(&value,
              static_cast<const std::byte*>(buffer.data) + index * sizeof(T),
              sizeof(T));
  return value;
}

bool is_bitwise(ReduceOp::Kind kind) {
  return kind == ReduceOp::kBand || kind == ReduceOp::kBor ||
         kind == ReduceOp::kBxor;
}

int64_t factor_of(int rank) { return rank % 4 + 1; }

// `value_at(i)` for all elements, the first period one by one.
template <class ValueAt>
void fill(const Buffer& buffer, ValueAt value_at) {
  const size_t head = std::min(buffer.count, Pattern::kPeriod);
  for (size_t i = 0; i < head; ++i) put(buffer, i, value_at(i));
  auto* const data = static_cast<std::byte*>(buffer.data);
  const size_t bytes = buffer.bytes();
  size_t done = head * size_of(buffer.dtype);
  while (done < bytes) {
    const size_t more = std::min(done, bytes - done);
    std::memcpy(data + done, data, more);
    done += more;
  }
}

template <class ValueAt>
std::string problem(const Buffer& buffer, ValueAt value_at) {
  if (buffer.count == 0) return "";
  FencedMemory expected(std::min(buffer.count, Pattern::kPeriod), buffer.dtype);
  const Buffer head = expected.buffer();
  fill(head, value_at);
  const size_t width = size_of(buffer.dtype);
  const auto* const data = static_cast<const std::byte*>(buffer.data);
  const bool good = std::memcmp(data, head.data, head.bytes()) == 0 &&
                    std::memcmp(data, data + head.bytes(),
                                buffer.bytes() - head.bytes()) == 0;
  if (good) return "";
  for (size_t i = 0; i < buffer.count; ++i) {
    const size_t k = i % Pattern::kPeriod;
    if (std::memcmp(data + i * width,
                    static_cast<const std::byte*>(head.data) + k * width,
                    width) == 0) {
      continue;
    }
    return fmt::format("element {} of {} is {}, it should be {}", i,
                       buffer.count, number_at(buffer, i), number_at(head, k));
  }
  return "the bytes differ";
}

}  // namespace

void put(const Buffer& buffer, size_t index, int64_t value) {
  switch (buffer.dtype) {
    case DType::kFloat32:
      return put_as(buffer, index, static_cast<float>(value));
    case DType::kFloat64:
      return put_as(buffer, index, static_cast<double>(value));
    case DType::kFloat16:
      return put_as(buffer, index,
                    detail::float16_of_float(static_cast<float>(value)));
    case DType::kBFloat16:
      return put_as(buffer, index,
                    detail::bfloat16_of_float(static_cast<float>(value)));
    case DType::kInt8:
      return put_as(buffer, index, static_cast<int8_t>(value));
    case DType::kUInt8:
    case DType::kBool:
      return put_as(buffer, index, static_cast<uint8_t>(value));
    case DType::kInt16:
      return put_as(buffer, index, static_cast<int16_t>(value));
    case DType::kInt32:
      return put_as(buffer, index, static_cast<int32_t>(value));
    case DType::kInt64:
      return put_as(buffer, index, value);
  }
}

double number_at(const Buffer& buffer, size_t index) {
  switch (buffer.dtype) {
    case DType::kFloat32:
      return static_cast<double>(get_as<float>(buffer, index));
    case DType::kFloat64:
      return get_as<double>(buffer, index);
    case DType::kFloat16:
      return static_cast<double>(
          detail::float_of_float16(get_as<uint16_t>(buffer, index)));
    case DType::kBFloat16:
      return static_cast<double>(
          detail::float_of_bfloat16(get_as<uint16_t>(buffer, index)));
    case DType::kInt8:
      return get_as<int8_t>(buffer, index);
    case DType::kUInt8:
    case DType::kBool:
      return get_as<uint8_t>(buffer, index);
    case DType::kInt16:
      return get_as<int16_t>(buffer, index);
    case DType::kInt32:
      return get_as<int32_t>(buffer, index);
    case DType::kInt64:
      return static_cast<double>(get_as<int64_t>(buffer, index));
  }
  return 0;
}

FencedMemory::FencedMemory(size_t count, DType dtype, MemoryPool* pool)
    : dtype_(dtype), count_(count) {
  size_t bytes = 2 * kFence + (count + 1) * size_of(dtype);
  bytes = (bytes + kFence - 1) / kFence * kFence;
  if (pool == nullptr) own_.resize(bytes);
  memory_ = pool == nullptr ? Bytes(own_) : pool->take(bytes);
  std::memset(memory_.data(), static_cast<int>(kFenceByte), bytes);
  std::memset(memory_.data() + begin(), static_cast<int>(kUntouchedByte),
              count * size_of(dtype));
}

// One element beyond what malloc aligns.
size_t FencedMemory::begin() const { return kFence + size_of(dtype_); }

Buffer FencedMemory::buffer() {
  if (is_empty()) return {nullptr, 0, dtype_};
  return {memory_.data() + begin(), count_, dtype_};
}

bool FencedMemory::fences_hold() const {
  const auto is_fence = [](std::byte b) { return b == kFenceByte; };
  const std::byte* const data = memory_.data();
  const size_t end = begin() + count_ * size_of(dtype_);
  return is_empty() ||
         (std::all_of(data, data + begin(), is_fence) &&
          std::all_of(data + end, data + memory_.size(), is_fence));
}

bool FencedMemory::is_untouched() const {
  if (is_empty()) return true;
  const std::byte* const data = memory_.data() + begin();
  return fences_hold() &&
         std::all_of(data, data + count_ * size_of(dtype_),
                     [](std::byte b) { return b == kUntouchedByte; });
}

ReduceOp Pattern::op_for(int rank) const {
  if (kind_ != ReduceOp::kPremulSum) return kind_;
  return ReduceOp::premul_sum(static_cast<double>(factor_of(rank)));
}

// -4 to 4, or what suits the type and the operation.
int64_t Pattern::input_at(int rank, size_t index) const {
  index %= kPeriod;
  const uint32_t random = mix(seed_ * 64 + static_cast<uint32_t>(rank) +
                              mix(static_cast<uint32_t>(index) * 977 + 5));
  if (dtype_ == DType::kBool) return random % 3;  // 2 counts as true, too
  const bool is_signed = dtype_ != DType::kUInt8;
  if (is_bitwise(kind_)) return random % 128;
  if (kind_ == ReduceOp::kProduct) {
    // A few ranks double, some change the sign.
    if ((index + static_cast<size_t>(rank)) % 4 == 0 && rank < 16) return 2;
    return is_signed && random % 3 == 0 ? -1 : 1;
  }
  const int64_t value = static_cast<int64_t>(random % 9) - (is_signed ? 4 : 0);
  // So that every average of floats is a small integer again.
  if (kind_ == ReduceOp::kAverage && is_floating(dtype_)) {
    return value * ranks_;
  }
  return value;
}

int64_t Pattern::sum_at(size_t index) const {
  int64_t sum = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const int64_t factor = kind_ == ReduceOp::kPremulSum ? factor_of(rank) : 1;
    sum += factor * input_at(rank, index);
  }
  return sum;
}

int64_t Pattern::reduced_at(size_t index) const {
  const bool boolean = dtype_ == DType::kBool;
  const auto value_of = [&](int rank) {
    const int64_t value = input_at(rank, index);
    return boolean ? int64_t{value != 0} : value;
  };
  int64_t result = value_of(0);
  for (int rank = 1; rank < ranks_; ++rank) {
    const int64_t value = value_of(rank);
    switch (kind_) {
      case ReduceOp::kProduct:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      case ReduceOp::kBand:
        result &= value;
        break;
      case ReduceOp::kBxor:
        result ^= value;
        break;
      default:
        result |= value;  // kBor; the sum of bools is the same
        break;
    }
  }
  switch (kind_) {
    case ReduceOp::kSum:
    case ReduceOp::kPremulSum:
      return boolean ? result : sum_at(index);
    case ReduceOp::kAverage:
      return sum_at(index) / ranks_;
    default:
      return result;
  }
}

void Pattern::fill_input(const Buffer& buffer, int rank, size_t first) const {
  fill(buffer, [&](size_t i) { return input_at(rank, first + i); });
}

std::string Pattern::input_problem(const Buffer& buffer, int rank,
                                   size_t first) const {
  return problem(buffer, [&](size_t i) { return input_at(rank, first + i); });
}

std::string Pattern::reduced_problem(const Buffer& buffer, size_t first) const {
  return problem(buffer, [&](size_t i) { return reduced_at(first + i); });
}

}  // namespace lockstep::testing

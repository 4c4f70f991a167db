// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/bytes.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep {

bool operator==(ConstBytes a, ConstBytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

ByteVector to_vector(ConstBytes bytes) { return {bytes.begin(), bytes.end()}; }

std::string to_string(ConstBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string to_printable(ConstBytes bytes, size_t most) {
  std::string text;
  for (std::byte byte : bytes) {
    if (text.size() >= most) return text + "...";
    const auto c = std::to_integer<unsigned char>(byte);
    if (c >= 0x20 && c < 0x7f) {
      text += static_cast<char>(c);
    } else {
      text += fmt::format("\\x{:02x}", c);
    }
  }
  return text;
}

ByteWriter& ByteWriter::integer(uint64_t value, int width) {
  const uint64_t digits = ::htobe64(value);
  return raw({reinterpret_cast<const std::byte*>(&digits) + 8 - width,
              static_cast<size_t>(width)});
}

ByteWriter& ByteWriter::raw(ConstBytes bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

ByteWriter& ByteWriter::counted(ConstBytes bytes) {
  LOCKSTEP_ASSERT(bytes.size() <= UINT32_MAX);
  return u32(static_cast<uint32_t>(bytes.size())).raw(bytes);
}

void ByteWriter::patch_u32(size_t offset, uint32_t value) {
  LOCKSTEP_ASSERT(offset + 4 <= bytes_.size());
  for (int i = 0; i < 4; ++i) {
    bytes_[offset + i] = static_cast<std::byte>(value >> (8 * (3 - i)));
  }
}

ConstBytes ByteReader::raw(size_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const ConstBytes field = rest_.first(size);
  rest_ = rest_.from(size);
  return field;
}

uint64_t ByteReader::integer(size_t width) {
  const ConstBytes field = raw(width);
  if (field.empty()) return 0;
  uint64_t digits = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&digits) + 8 - field.size(),
              field.data(), field.size());
  return ::be64toh(digits);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

using ByteVector = std::vector<std::byte>;

// A view of bytes that somebody else owns, like std::string_view. Text and
// byte vectors convert by themselves: store.set("name", "value").
class ConstBytes {
 public:
  constexpr ConstBytes() = default;
  constexpr ConstBytes(const std::byte* data, size_t size)
      : data_(data), size_(size) {}
  ConstBytes(const void* data, size_t size)
      : data_(static_cast<const std::byte*>(data)), size_(size) {}
  ConstBytes(const ByteVector& bytes)
      : data_(bytes.data()), size_(bytes.size()) {}
  ConstBytes(std::string_view text) : ConstBytes(text.data(), text.size()) {}
  ConstBytes(const std::string& text) : ConstBytes(text.data(), text.size()) {}
  ConstBytes(const char* text) : ConstBytes(std::string_view(text)) {}

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::byte* begin() const { return data_; }
  const std::byte* end() const { return data_ + size_; }
  ConstBytes first(size_t count) const { return {data_, count}; }
  ConstBytes from(size_t offset) const {
    return {data_ + offset, size_ - offset};
  }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The same, for bytes that may be written.
class Bytes {
 public:
  constexpr Bytes() = default;
  Bytes(void* data, size_t size)
      : data_(static_cast<std::byte*>(data)), size_(size) {}
  Bytes(ByteVector& bytes) : data_(bytes.data()), size_(bytes.size()) {}
  operator ConstBytes() const { return {data_, size_}; }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Bytes first(size_t count) const { return {data_, count}; }
  Bytes from(size_t offset) const { return {data_ + offset, size_ - offset}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

bool operator==(ConstBytes a, ConstBytes b);
inline bool operator!=(ConstBytes a, ConstBytes b) { return !(a == b); }

ByteVector to_vector(ConstBytes bytes);
std::string to_string(ConstBytes bytes);

// Bytes as people can read them in a message: printable text as it is, the
// rest as \xNN, cut after `most` characters.
std::string to_printable(ConstBytes bytes, size_t most = 80);

// Builds a message in network byte order. Counted fields carry their length
// in front, as four bytes.
class ByteWriter {
 public:
  ByteWriter() = default;
  // Goes on at the end of `bytes`, and keeps the memory it has.
  explicit ByteWriter(ByteVector bytes) : bytes_(std::move(bytes)) {}

  ByteWriter& u8(uint8_t value) { return integer(value, 1); }
  ByteWriter& u32(uint32_t value) { return integer(value, 4); }
  ByteWriter& u64(uint64_t value) { return integer(value, 8); }
  ByteWriter& raw(ConstBytes bytes);
  ByteWriter& counted(ConstBytes bytes);

  // Writes a u32 over what stands at `offset`: for lengths known at the end.
  void patch_u32(size_t offset, uint32_t value);

  size_t size() const { return bytes_.size(); }
  const ByteVector& bytes() const { return bytes_; }
  ByteVector take() { return std::move(bytes_); }

 private:
  ByteWriter& integer(uint64_t value, int width);
  ByteVector bytes_;
};

// Takes such a message apart. It never reads past the end: after the first
// field that does not fit, ok() is false and every field reads as zero or
// empty, so a parser may check once, at its end.
class ByteReader {
 public:
  explicit ByteReader(ConstBytes bytes) : rest_(bytes) {}

  uint8_t u8() { return static_cast<uint8_t>(integer(1)); }
  uint32_t u32() { return static_cast<uint32_t>(integer(4)); }
  uint64_t u64() { return integer(8); }
  ConstBytes raw(size_t size);
  ConstBytes counted() { return raw(u32()); }

  bool ok() const { return ok_; }
  size_t remaining() const { return rest_.size(); }
  // Everything fitted and nothing is left over.
  bool finished() const { return ok_ && rest_.empty(); }

 private:
  uint64_t integer(size_t width);
  ConstBytes rest_;
  bool ok_ = true;
};

}  // namespace lockstep

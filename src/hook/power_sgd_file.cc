// SPDX-License-Identifier: Apache-2.0
// The state of PowerSGD as bytes:
//
//   mark, size and hash of what follows; iterations, bytes uncompressed, bytes
//   sent; residuals: how many, and for each the parameter, elements, values;
//   directions: how many, and for each the key, rows, elements of a row, values
//
// Numbers are 8 bytes in network byte order, values are float32 as they lie in
// memory.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <istream>
#include <iterator>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "hook/power_sgd_state.h"
#include "lockstep/base/bytes.h"
#include "lockstep/base/error.h"

namespace lockstep::detail {
namespace {

// The digit is the version.
constexpr std::string_view kMark = "lockstep power_sgd state 1\n";
constexpr const char* kRemedy =
    "load what PowerSgd::save() of this version has written";

void put(ByteWriter& writer, int64_t number) {
  writer.u64(static_cast<uint64_t>(number));
}

void put(ByteWriter& writer, const at::Tensor& values) {
  const at::Tensor flat = values.contiguous();
  writer.raw(ConstBytes(flat.data_ptr(), flat.nbytes()));
}

int64_t take_number(ByteReader& reader) {
  return static_cast<int64_t>(reader.u64());
}

// Empty when so many numbers cannot follow; then the reader has failed, too.
at::Tensor take_values(ByteReader& reader, int64_t rows, int64_t cols) {
  const auto room = static_cast<int64_t>(reader.remaining() / sizeof(float));
  const bool fits = rows > 0 && cols > 0 && rows <= room / cols;
  const int64_t count = fits ? rows * cols : 0;
  const ConstBytes bytes =
      reader.raw(fits ? static_cast<size_t>(count) * sizeof(float) : SIZE_MAX);
  at::Tensor values = at::empty({fits ? rows : 0, fits ? cols : 0}, at::kFloat);
  if (!bytes.empty()) {
    std::memcpy(values.data_ptr(), bytes.data(), bytes.size());
  }
  return values;
}

// As many bytes as are there, up to `size`; never more memory than that needs.
ByteVector read_up_to(std::istream& in, uint64_t size) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  ByteVector bytes;
  while (in && bytes.size() < size) {
    const size_t had = bytes.size();
    const auto want =
        static_cast<size_t>(std::min<uint64_t>(kPiece, size - had));
    bytes.resize(had + want);
    in.read(reinterpret_cast<char*>(bytes.data() + had),
            static_cast<std::streamsize>(want));
    bytes.resize(had + static_cast<size_t>(in.gcount()));
  }
  return bytes;
}

// The bytes after the head, compared with what it says of them.
ByteVector read_checked(std::istream& in) {
  const ByteVector mark = read_up_to(in, kMark.size());
  LOCKSTEP_CHECK(ConstBytes(mark) == ConstBytes(kMark), UsageError,
                 "this is no state of power_sgd: it begins with '{}'; {}",
                 to_printable(mark, 40), kRemedy);
  const ByteVector head = read_up_to(in, 2 * sizeof(uint64_t));
  ByteReader reader(head);
  const uint64_t size = reader.u64();
  const uint64_t hash = reader.u64();
  ByteVector body = read_up_to(in, size);
  LOCKSTEP_CHECK(reader.finished() && body.size() == size, UsageError,
                 "the state of power_sgd ends too early, after {} bytes; {}",
                 mark.size() + head.size() + body.size(), kRemedy);
  LOCKSTEP_CHECK(hash_more(kHashStart, body) == hash, UsageError,
                 "the state of power_sgd has been damaged; {}", kRemedy);
  return body;
}

}  // namespace

void PowerSgdState::save(std::ostream& out) const {
  ByteWriter body;
  put(body, stats_.iterations);
  put(body, stats_.bytes_uncompressed);
  put(body, stats_.bytes_sent);
  auto residuals = residuals_.save();
  for (auto one = residuals.begin(); one != residuals.end();) {
    one = one->second.numel() == 0 ? residuals.erase(one) : std::next(one);
  }
  put(body, static_cast<int64_t>(residuals.size()));
  for (const auto& [parameter, values] : residuals) {
    put(body, static_cast<int64_t>(parameter));
    put(body, values.numel());
    put(body, values);
  }
  std::vector<std::pair<size_t, at::Tensor>> found;
  for (const auto& [key, one] : directions_) {
    if (one->columns.defined()) found.emplace_back(key, one->columns);
  }
  put(body, static_cast<int64_t>(found.size()));
  for (const auto& [key, columns] : found) {
    put(body, static_cast<int64_t>(key));
    put(body, columns.size(0));
    put(body, columns.size(1));
    put(body, columns);
  }
  ByteWriter head;
  head.raw(kMark).u64(body.size()).u64(hash_more(kHashStart, body.bytes()));
  for (const ByteVector* part : {&head.bytes(), &body.bytes()}) {
    out.write(reinterpret_cast<const char*>(part->data()),
              static_cast<std::streamsize>(part->size()));
  }
  if (!out.flush()) {
    throw SystemError("the state of power_sgd could not be written",
                      errno != 0 ? errno : EIO);
  }
}

void PowerSgdState::load(std::istream& in) {
  const ByteVector body = read_checked(in);
  ByteReader reader(body);
  hooks::PowerSgdStats stats;
  stats.iterations = take_number(reader);
  stats.bytes_uncompressed = take_number(reader);
  stats.bytes_sent = take_number(reader);
  std::map<size_t, at::Tensor> residuals;
  for (int64_t left = take_number(reader); left > 0 && reader.ok(); --left) {
    const auto parameter = static_cast<size_t>(reader.u64());
    residuals[parameter] = take_values(reader, 1, take_number(reader));
  }
  std::map<size_t, std::shared_ptr<Directions>> directions;
  for (int64_t left = take_number(reader); left > 0 && reader.ok(); --left) {
    const auto key = static_cast<size_t>(reader.u64());
    const int64_t rows = take_number(reader);
    const int64_t cols = take_number(reader);
    directions[key] = std::make_shared<Directions>(
        Directions{take_values(reader, rows, cols)});
  }
  LOCKSTEP_CHECK(reader.finished() && stats.iterations >= 0, UsageError,
                 "the state of power_sgd makes no sense; {}", kRemedy);
  stats_ = stats;
  residuals_.load(residuals);
  directions_ = std::move(directions);
  watch_.forget();  // so that ranks compare before the next step
}

}  // namespace lockstep::detail

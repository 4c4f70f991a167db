// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// A file in the IDX format, in which the data sets of the MNIST family come:
// two zeros, the type of the elements, the number of dimensions, each size as
// four bytes, the largest first, and then the elements. Only bytes are read
// here.
struct IdxFile {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> elements;
};

// Reads `path`, which may be compressed by gzip.
inline IdxFile read_idx_file(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(
      gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open " + path);
  const auto read = [&](uint8_t* to, size_t count) {
    const auto wanted = static_cast<unsigned>(count);
    if (gzread(file.get(), to, wanted) != static_cast<int>(wanted)) {
      throw std::runtime_error(path + " is damaged or too short");
    }
  };

  uint8_t head[4];
  read(head, sizeof head);
  constexpr uint8_t kBytes = 8;  // the type
  if (head[0] != 0 || head[1] != 0 || head[2] != kBytes) {
    throw std::runtime_error(path + " is no IDX file of bytes");
  }
  IdxFile result;
  int64_t count = 1;
  constexpr int64_t kMost = 1 << 30;  // what a broken file might claim
  for (int i = 0; i < head[3]; ++i) {
    uint8_t size[4];
    read(size, sizeof size);
    result.sizes.push_back(int64_t{size[0]} << 24 | size[1] << 16 |
                           size[2] << 8 | size[3]);
    if (result.sizes.back() > kMost / count) {
      throw std::runtime_error(path + " claims to be larger than 1 GiB");
    }
    count *= result.sizes.back();
    if (count == 0) throw std::runtime_error(path + " is empty");
  }
  result.elements.resize(static_cast<size_t>(count));
  read(result.elements.data(), result.elements.size());
  return result;
}

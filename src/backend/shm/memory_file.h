// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::detail {

// Pages mapped into this process, until it is destroyed.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping() { reset(); }
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  void reset();

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Memory that other processes can map too. It has no name anywhere: when the
// last process that has it open or mapped is gone, however it went, so is it.
//
// Errors: SystemError, with how much was asked and how much there is.
class MemoryFile {
 public:
  // Zeroed pages, all of them reserved: using them cannot fail any more.
  static MemoryFile reserved(size_t bytes);
  // The same, but only reserve() makes pages usable.
  static MemoryFile sparse(size_t bytes);
  // The one that process `pid` has open as descriptor `fd`. Errors: SystemError
  // with ENOENT or ESRCH when the process or its descriptor is gone.
  static MemoryFile of_process(pid_t pid, int fd);

  int fd() const { return fd_.get(); }
  // Whether its first bytes are `cookie`; the file need not be ours.
  bool begins_with(uint64_t cookie) const;
  void reserve(size_t offset, size_t bytes);

  enum class Populate { kNow, kOnUse };
  Mapping map(size_t offset, size_t bytes, Populate populate) const;

 private:
  explicit MemoryFile(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

// A number that no other process has: descriptors and process numbers are used
// again, so whoever opens memory through them looks for the number it expects.
uint64_t new_cookie();

// Whether an error of of_process() or map() means that the other process, or
// what it had open, is gone.
bool is_gone(const SystemError& error);

constexpr size_t kPageBytes = 4096;
inline size_t whole_pages(size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Checks that `bytes` more can be had, before anything is reserved: the kernel
// would rather kill a process than refuse. `whose` ends the message: "for each
// of 4 ranks". Errors: SystemError (ENOMEM).
void check_room(size_t bytes, const std::string& whose);

// How many bytes there is room for: what the machine has and the limits of the
// memory control group allow.
size_t memory_room();

}  // namespace lockstep::detail

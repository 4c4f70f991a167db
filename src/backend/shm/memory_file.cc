// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  reset();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Mapping::reset() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
}

uint64_t new_cookie() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

bool MemoryFile::begins_with(uint64_t cookie) const {
  uint64_t first = 0;
  return ::pread(fd(), &first, sizeof(first), 0) == sizeof(first) &&
         first == cookie;
}

// More than the limit would not be an error but a signal.
MemoryFile MemoryFile::sparse(size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    throw SystemError(fmt::format("cannot make a memory file of {} bytes; "
                                  "files may have {} here (ulimit -f)",
                                  bytes, limit.rlim_cur),
                      EFBIG);
  }
  MemoryFile file{Fd(::memfd_create("lockstep", MFD_CLOEXEC))};
  if (!file.fd_) throw SystemError("cannot make a memory file", errno);
  if (::ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0) {
    throw SystemError(
        fmt::format("cannot make a memory file of {} bytes", bytes), errno);
  }
  return file;
}

MemoryFile MemoryFile::reserved(size_t bytes) {
  MemoryFile file = sparse(bytes);
  file.reserve(0, bytes);
  return file;
}

// In pieces, because a signal undoes the one in work.
void MemoryFile::reserve(size_t offset, size_t bytes) {
  constexpr size_t kPiece = size_t{16} << 20;
  const size_t end = offset + bytes;
  for (size_t at = offset; at < end;) {
    const size_t piece = std::min(kPiece, end - at);
    if (::fallocate(fd(), 0, static_cast<off_t>(at),
                    static_cast<off_t>(piece)) == 0) {
      at += piece;
    } else if (errno != EINTR) {
      throw SystemError(
          fmt::format("cannot reserve {} bytes of shared memory; there is room "
                      "for {}",
                      bytes, memory_room()),
          errno);
    }
  }
}

MemoryFile MemoryFile::of_process(pid_t pid, int fd) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  MemoryFile file{Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC))};
  if (file.fd_) return file;
  throw SystemError(fmt::format("cannot open memory of process {}{}", pid,
                                errno == EACCES || errno == EPERM
                                    ? "; do all ranks run as the same user?"
                                    : "; has it ended?"),
                    errno);
}

// A descriptor that was closed may mean anything by now, a socket for example,
// so there are many ways to say it. What remains is our own want of something.
bool is_gone(const SystemError& error) {
  switch (error.error_number()) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EFBIG:
      return false;
    default:
      return true;
  }
}

// Pages past the end of the file would end the process when touched.
Mapping MemoryFile::map(size_t offset, size_t bytes, Populate populate) const {
  struct stat status {};
  if (::fstat(fd(), &status) != 0 ||
      static_cast<size_t>(status.st_size) < offset + bytes) {
    throw SystemError("another process's memory is not what it was", ESTALE);
  }
  const int flags =
      MAP_SHARED | (populate == Populate::kNow ? MAP_POPULATE : 0);
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd(),
                            static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    throw SystemError(
        fmt::format("cannot map {} bytes of shared memory; is the address "
                    "space limited (ulimit -v)?",
                    bytes),
        errno);
  }
  return {static_cast<std::byte*>(data), bytes};
}

}  // namespace lockstep::detail

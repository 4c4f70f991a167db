// SPDX-License-Identifier: Apache-2.0
#include "backend/plain_memory.h"

#include <sys/mman.h>

#include <cerrno>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

RegisteredMemory plain_memory(size_t bytes) {
  if (bytes == 0) return {};
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw SystemError(fmt::format("cannot allocate {} bytes", bytes), errno);
  }
  return {
      std::shared_ptr<void>(memory, [bytes](void* p) { ::munmap(p, bytes); }),
      memory, bytes};
}

}  // namespace lockstep::detail

// SPDX-License-Identifier: Apache-2.0
#include "backend/shm/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat pids {};
  if (!(file >> boot) || ::stat("/proc/self/ns/pid", &pids) != 0) {
    throw SystemError("cannot tell this host from others: no /proc here",
                      errno);
  }
  return fmt::format("{} {}", boot, pids.st_ino);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

}  // namespace lockstep::detail

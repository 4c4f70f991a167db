// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep {

std::string read_secret_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  char bytes[4096];
  ssize_t size = -1;
  if (file && ::fstat(file.get(), &info) == 0) {
    size = ::read(file.get(), bytes, sizeof bytes);
  }
  if (size < 0) {
    throw SystemError(fmt::format("cannot read the secret file '{}'", path),
                      errno);
  }
  LOCKSTEP_CHECK(
      (info.st_mode & 0077) == 0, UsageError,
      "others may read or write the secret file '{}'; run: chmod 600 {}", path,
      path);
  std::string secret(bytes, static_cast<size_t>(size));
  secret.resize(std::min(secret.size(), secret.find_first_of("\r\n")));
  LOCKSTEP_CHECK(!secret.empty(), UsageError,
                 "the secret file '{}' is empty; fill it with: head -c 32 "
                 "/dev/urandom | base64 > {}",
                 path, path);
  return secret;
}

std::optional<std::string> secret_from_environment() {
  if (auto secret = env::text("LOCKSTEP_SECRET")) return secret;
  if (auto path = env::text("LOCKSTEP_SECRET_FILE")) {
    return read_secret_file(*path);
  }
  return std::nullopt;
}

}  // namespace lockstep
